package simulation

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

const (
	webPages   = "webpages"
	configMaps = "configmaps"
)

// object names an object of the namespace that everything happens in.
type object struct{ resource, name string }

func (o object) String() string { return o.resource + "/" + o.name }

// state is what an object was from one version until before another, 0 for as long as it lasts.
type state struct {
	from, to int64
	object   *unstructured.Unstructured // nil while there is none
	commit   apimodel.Commit            // that led to it
}

// truth is what has happened, by the model's own history. It knows of everything that was committed
// before it is asked, as nothing else in the world can.
type truth struct {
	model *apimodel.Model

	mu      sync.Mutex // guards below
	version int64      // taken in so far
	states  map[object][]state
}

func newTruth(model *apimodel.Model) *truth {
	return &truth{model: model, states: map[object][]state{}}
}

// of returns all states of an object, oldest first; the first is that there is none.
func (h *truth) of(what object) []state {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.model.Since(h.version) {
		h.version = c.Version
		o := object{c.Resource, c.Object.GetName()}
		all := h.states[o]
		if len(all) == 0 {
			all = []state{{}}
		}
		all[len(all)-1].to = c.Version
		next := state{from: c.Version, object: c.Object, commit: c}
		if c.Event == watch.Deleted {
			next.object = nil
		}
		h.states[o] = append(all, next)
	}
	if all := h.states[what]; len(all) > 0 {
		return slices.Clone(all)
	}
	return []state{{}}
}

// now is the last state of an object.
func (h *truth) now(what object) state {
	all := h.of(what)
	return all[len(all)-1]
}

// matching finds the first state that still was when the object was at the version floor, and that
// fits.
func (h *truth) matching(what object, floor int64, fits func(state) bool) (found state, ok bool) {
	all := h.of(what)
	at := slices.IndexFunc(all, func(s state) bool { return (s.to == 0 || s.to > floor) && fits(s) })
	if at < 0 {
		return state{}, false
	}
	return all[at], true
}

// last is the version of the last commit of an object that is of the kind, 0 for none.
func (h *truth) last(what object, is func(apimodel.Commit) bool) (version int64) {
	for _, s := range h.of(what) {
		if s.from > 0 && is(s.commit) {
			version = s.from
		}
	}
	return version
}

// tell is the history of everything, for people.
func (h *truth) tell(newest int) string {
	commits := h.model.History()
	var lines []string
	for _, c := range commits[max(0, len(commits)-newest):] {
		if c.Resource == "events" || c.Resource == "leases" {
			continue
		}
		by, _, _ := strings.Cut(c.UserAgent, " ")
		lines = append(lines, fmt.Sprintf("\n    %4d %s %-8s %s/%s %s by %s as %s, uid ...%s, generation %d, finalizers %v, deleting %v, %v",
			c.Version, c.At.Format("15:04:05.000"), c.Event, c.Resource, c.Object.GetName(), c.Subresource, by, c.Manager,
			tailOf(string(c.Object.GetUID())), c.Object.GetGeneration(), c.Object.GetFinalizers(), c.Object.GetDeletionTimestamp() != nil, content(c.Object)))
	}
	return strings.Join(lines, "")
}

func tailOf(uid string) string { return uid[max(0, len(uid)-3):] }

func content(o *unstructured.Unstructured) map[string]any {
	all := map[string]any{"for": o.GetLabels()[forLabel]}
	for _, field := range []string{"spec", "data", "status"} {
		if value, found := o.Object[field]; found {
			all[field] = value
		}
	}
	return all
}

// versionOf is the version of an object that was read.
func versionOf(o metav1.Object) (version int64) {
	if _, err := fmt.Sscan(o.GetResourceVersion(), &version); err != nil {
		panic(fmt.Sprintf("simulation: resourceVersion %q: %v", o.GetResourceVersion(), err))
	}
	return version
}
