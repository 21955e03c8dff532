package frameworktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
)

// scene is what there is at a rest.
type scene struct {
	state   canon.State
	systems map[string][]Item
}

// sceneOf returns what there is for the one story of a life.
func sceneOf(l *life) scene { return sceneWith(l, canon.Options{}) }

func sceneWith(l *life, o canon.Options) scene {
	h := historyOf(l)
	systems, ids := systemsOf(l, h)
	o.Also = ids
	return scene{stateOf(l, h, l.stories[0], o, false), systems}
}

// differs returns the lines in which another scene differs.
func (s scene) differs(other scene) []string {
	return append(canon.Difference(s.state, other.state), canon.Difference(outside(s.systems, 1, true), outside(other.systems, 1, true))...)
}

// stateOf returns what there is for the story of a namespace, in a form that can be compared. Also,
// of the options, replaces the IDs that external systems have given. If only its own is asked for,
// what lies in other namespaces or in none belongs to a story whose namespace or objects it names,
// and to no other.
func stateOf(l *life, h *history, namespace string, options canon.Options, own bool) canon.State {
	var objects []canon.Object
	options.Namespaces, options.Versions, options.Renamed = forgettable([]string{namespace}), h.versions, map[string]string{}
	add := func(c change) {
		o := canon.Object{Resource: resourceOf(c), Unstructured: c.object.DeepCopy(), Hidden: h.isOthers(c.object)}
		if mask := l.scenario.Mask; mask != nil && !o.Hidden {
			if mask(o.Unstructured); o.GetName() != c.object.GetName() {
				options.Renamed[c.object.GetName()] = o.GetName()
			}
		}
		if o.GetNamespace() == namespace {
			o.SetNamespace("") // lives have different ones
		}
		objects = append(objects, o)
	}
	l.call("Mask", func() {
		for _, c := range h.live {
			if !isNoise(c) && (c.object.GetNamespace() == namespace || h.touched[c.object.GetUID()] && (!own || l.isOnlyOf(namespace, h, c))) {
				add(c)
			}
		}
	})
	return canon.Of(objects, canon.NewNames(objects, options))
}

// forgettable returns those of the namespaces whose names mean nothing else. The story of a life
// that has no others is in "default".
func forgettable(namespaces []string) []string {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return name == "default" })
}

// resourceOf is the plural with the group.
func resourceOf(c change) string {
	return strings.TrimSuffix(c.resource+"."+c.object.GroupVersionKind().Group, ".")
}

// history is what the changes of a life tell about objects.
type history struct {
	changes  []change
	live     map[objectID]change    // the last change of each object that exists
	creators map[types.UID]string   // who made the objects
	touched  map[types.UID]bool     // users or the operator have changed it; what only the cluster did is not compared
	versions map[string]types.UID   // the objects that had the versions
	within   map[string][]types.UID // the objects that there were in a namespace
}

// historyOf returns what has happened in a life so far.
func historyOf(l *life) *history {
	changes := l.server.changes()
	h := &history{
		changes: changes, live: liveOf(changes), creators: map[types.UID]string{}, touched: map[types.UID]bool{},
		versions: map[string]types.UID{}, within: map[string][]types.UID{},
	}
	for _, c := range changes {
		id, by := c.object.GetUID(), who(c.by)
		if _, known := h.creators[id]; !known {
			h.creators[id] = by
			h.within[c.object.GetNamespace()] = append(h.within[c.object.GetNamespace()], id)
		}
		h.touched[id] = h.touched[id] || by == "user" || isOperators(c)
		h.versions[c.object.GetResourceVersion()] = id
	}
	return h
}

// isOthers reports whether the object is what a controller of Kubernetes has made of another
// object: how many there are, and of which revision, is not the operator's doing.
func (h *history) isOthers(o *unstructured.Unstructured) bool {
	if h.creators[o.GetUID()] != "cluster" {
		return false
	}
	for _, owner := range o.GetOwnerReferences() {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if owner.Controller != nil && *owner.Controller && (group == "apps" || group == "batch") {
			return true
		}
	}
	return o.GetKind() == "Endpoints" || o.GetKind() == "EndpointSlice"
}

// isOnlyOf reports whether an object that is in the namespace of no story belongs to a story: it
// names the story's namespace or one of its objects, and none of another story.
func (l *life) isOnlyOf(namespace string, h *history, c change) bool {
	content, err := json.Marshal(c.object.Object)
	if err != nil {
		return false
	}
	text := string(content)
	names := func(story string) bool {
		return canon.HasWord(text, story) || slices.ContainsFunc(h.within[story], func(id types.UID) bool { return strings.Contains(text, string(id)) })
	}
	for _, story := range l.stories {
		if names(story) != (story == namespace) {
			return false
		}
	}
	return true
}

// systemsOf returns what external systems have, without what differs from life to life, and a
// function that replaces their IDs wherever they are mentioned.
func systemsOf(l *life, h *history) (systems map[string][]Item, ids func(string) string) {
	known := l.known()
	if len(known) == 0 {
		return nil, nil
	}
	var objects []canon.Object
	for _, c := range h.live {
		objects = append(objects, canon.Object{Resource: resourceOf(c), Unstructured: c.object})
	}
	n := canon.NewNames(objects, canon.Options{Namespaces: forgettable(l.stories), Versions: h.versions})
	systems = map[string][]Item{}
	for _, system := range known {
		items := system.present()
		for i := range items {
			items[i].Name, items[i].Value = n.Text(items[i].Name), n.Text(items[i].Value)
			if mask := l.scenario.MaskItem; mask != nil {
				l.call("MaskItem", func() { mask(system.name, &items[i]) })
			}
		}
		systems[system.name] = items
	}
	ids = idsOf(systems, l.scenario.seeds == 0)
	for _, items := range systems {
		for i := range items {
			items[i].Name, items[i].Value = ids(items[i].Name), ids(items[i].Value)
		}
	}
	return systems, ids
}

// idsOf returns a function that replaces the IDs that systems have given: what the item is counts,
// and that there is none. The names of items count only if named is set: copies of a story keep
// them apart.
func idsOf(systems map[string][]Item, named bool) func(text string) string {
	items := map[string]string{}
	var given []string
	for _, system := range slices.Sorted(maps.Keys(systems)) {
		given = append(given, regexp.QuoteMeta(system))
		for _, item := range systems[system] {
			items[item.ID] = fmt.Sprintf("<id of %s %q>", system, item.Value)
			if named {
				items[item.ID] = fmt.Sprintf("<id of %s %q: %q>", system, canon.Unhashed(item.Name), item.Value)
			}
		}
	}
	slices.SortFunc(given, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pattern := regexp.MustCompile(`\b(` + strings.Join(given, "|") + `)-\d+\b`)
	return func(text string) string {
		return pattern.ReplaceAllStringFunc(text, func(id string) string {
			return cmp.Or(items[id], "<id of nothing in "+id[:strings.LastIndex(id, "-")]+">")
		})
	}
}

// known returns the external systems.
func (l *life) known() []*system {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.systems))
}
