package eventsource_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// related is a source under a random history. It is compared with what follows from the objects
// that readers see before and after each step.
type related struct {
	store    *trc.Store
	watch    *trc.Watch
	informer *eventsource.Informer
	sink     *offers
	version  int
	live     map[string]*corev1.ConfigMap // what the server has, by namespace and name
	// unseen are the steps that the watch has not delivered yet.
	unseen []step
}

type step struct {
	old, new *corev1.ConfigMap // nil for none
}

var primaryNames = []string{"a", "b", "c"}

func primaryKeys() (all []trc.Key) {
	for _, namespace := range []string{"far", "ns"} {
		for _, name := range primaryNames {
			all = append(all, trc.Key{Namespace: namespace, Name: name})
		}
	}
	return all
}

// belongs says it plainly: whether a ConfigMap is that of a primary.
func belongs(o *corev1.ConfigMap, key trc.Key) bool {
	primary, beside := key.Name, o.Namespace == key.Namespace
	for _, owner := range o.OwnerReferences {
		if owner.Kind == "WebPage" && strings.HasPrefix(owner.APIVersion, "samples.evenkeel.dev/") && owner.Name == primary && beside {
			return true
		}
	}
	marks := o.Annotations
	if marks[eventsource.PrimaryNameKey] == primary && marks[eventsource.PrimaryKindKey] == "WebPage.samples.evenkeel.dev" {
		namespace, told := marks[eventsource.PrimaryNamespaceKey]
		if told && namespace == key.Namespace || !told && beside {
			return true
		}
	}
	return o.Name == "of-"+primary && beside || key.Namespace == "ns" && slices.Contains(strings.Split(o.Data["custom"], " "), primary)
}

func newRelated(t *rapid.T) *related {
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	r := &related{
		store: store, watch: store.AddWatch(""), sink: &offers{}, version: 10,
		live: map[string]*corev1.ConfigMap{},
	}
	custom := eventsource.Mapper(func(o trc.Object) (keys []trc.Key) {
		for _, name := range strings.Fields(o.(*corev1.ConfigMap).Data["custom"]) {
			keys = append(keys, trc.Key{Namespace: "ns", Name: name})
		}
		return keys
	})
	mapper, err := eventsource.AnyOf{eventsource.Owners{}, eventsource.PrimaryRef{}, eventsource.Names{Prefix: "of-"}, custom}.MapperFor(webPage, false)
	if err != nil {
		t.Fatal(err)
	}
	r.informer = eventsource.NewInformer(store, eventsource.InformerOptions{
		Name: "configmap", Kind: "ConfigMap", Map: mapper,
		Indexes: map[string]func(trc.Object) []string{
			"words": func(o trc.Object) []string { return strings.Fields(o.(*corev1.ConfigMap).Data["custom"]) },
		},
	})
	if _, err := r.informer.Start(r.sink); err != nil {
		t.Fatal(err)
	}
	r.ok(t, r.watch.Replace(nil, "10"))
	return r
}

func (r *related) ok(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// drawn is a ConfigMap with random references.
func (r *related) drawn(t *rapid.T, namespace, name string) *corev1.ConfigMap {
	r.version++
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: strconv.Itoa(r.version)}}
	primary := rapid.SampledFrom(primaryNames)
	for range rapid.IntRange(0, 2).Draw(t, "owners") {
		apiVersion := rapid.SampledFrom([]string{pageVersion, "samples.evenkeel.dev/v2", "v1"}).Draw(t, "apiVersion")
		o.OwnerReferences = append(o.OwnerReferences, owner(apiVersion, "WebPage", primary.Draw(t, "owner"), false))
	}
	if rapid.Bool().Draw(t, "marked") {
		o.Annotations = map[string]string{
			eventsource.PrimaryNameKey: primary.Draw(t, "mark"),
			eventsource.PrimaryKindKey: rapid.SampledFrom([]string{"WebPage.samples.evenkeel.dev", "WebSite.samples.evenkeel.dev"}).Draw(t, "kind"),
		}
		if rapid.Bool().Draw(t, "elsewhere") {
			o.Annotations[eventsource.PrimaryNamespaceKey] = rapid.SampledFrom([]string{"ns", "far"}).Draw(t, "namespace")
		}
	}
	o.Data = map[string]string{"custom": strings.Join(rapid.SliceOfN(primary, 0, 2).Draw(t, "custom"), " ")}
	return o
}

// write changes, creates or replaces an object on the server, and acknowledges it if we did.
func (r *related) write(t *rapid.T) {
	namespace := rapid.SampledFrom([]string{"ns", "far"}).Draw(t, "namespace")
	name := rapid.SampledFrom([]string{"of-a", "of-b", "x"}).Draw(t, "name")
	o := r.drawn(t, namespace, name)
	key := namespace + "/" + name
	before := r.live[key]
	if before == nil || rapid.IntRange(0, 3).Draw(t, "replaced") == 0 {
		if before != nil {
			r.remove(t, key, before)
		}
		before = nil
		o.UID = types.UID("u" + o.ResourceVersion)
	} else {
		o.UID = before.UID
	}
	r.live[key] = o
	r.unseen = append(r.unseen, step{before, o})
	if rapid.Bool().Draw(t, "ours") {
		r.ok(t, r.store.Acknowledge(o, trc.Proof{}))
	}
}

func (r *related) remove(t *rapid.T, key string, o *corev1.ConfigMap) {
	r.version++
	last := o.DeepCopy()
	last.ResourceVersion = strconv.Itoa(r.version)
	delete(r.live, key)
	r.unseen = append(r.unseen, step{last, nil})
	if rapid.Bool().Draw(t, "ours") {
		r.store.AcknowledgeGone(trc.KeyOf(o), o.UID, o.ResourceVersion)
	}
}

// tell lets the watch catch up by a step, or by a list.
func (r *related) tell(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "list") == 0 {
		var all []any
		for _, key := range slices.Sorted(maps.Keys(r.live)) {
			all = append(all, r.live[key])
		}
		r.unseen = nil
		r.ok(t, r.watch.Replace(all, strconv.Itoa(r.version)))
		return
	}
	if len(r.unseen) == 0 {
		return
	}
	next := r.unseen[0]
	r.unseen = r.unseen[1:]
	switch {
	case next.new == nil:
		r.ok(t, r.watch.Delete(next.old))
	case next.old == nil:
		r.ok(t, r.watch.Add(next.new))
	default:
		r.ok(t, r.watch.Update(next.new))
	}
}

func (r *related) shown() map[trc.Key]*corev1.ConfigMap {
	all := map[trc.Key]*corev1.ConfigMap{}
	for _, o := range r.store.List("", nil) {
		all[trc.KeyOf(o)] = o.(*corev1.ConfigMap)
	}
	return all
}

// due are the primaries that some steps are to be offered to.
func due(before, after map[trc.Key]*corev1.ConfigMap) []string {
	found := map[string]bool{}
	touched := maps.Clone(before)
	maps.Copy(touched, after)
	for key := range touched {
		old, new := before[key], after[key]
		if old != nil && new != nil && old.ResourceVersion == new.ResourceVersion {
			continue
		}
		for _, primary := range primaryKeys() {
			if old != nil && belongs(old, primary) || new != nil && belongs(new, primary) {
				found[primary.String()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func versions(t *rapid.T, found []trc.Object, err error) (all []string) {
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range found {
		all = append(all, trc.KeyOf(o).String()+" "+o.GetResourceVersion())
	}
	slices.Sort(all)
	return all
}

// check compares the indexes with the visible objects.
func (r *related) check(t *rapid.T) {
	shown := r.shown()
	for _, primary := range primaryKeys() {
		var want, words []string
		for key, o := range shown {
			line := key.String() + " " + o.ResourceVersion
			if belongs(o, primary) {
				want = append(want, line)
			}
			if slices.Contains(strings.Fields(o.Data["custom"]), primary.Name) {
				words = append(words, line)
			}
		}
		slices.Sort(want)
		slices.Sort(words)
		found, err := r.informer.Of(primary)
		if got := versions(t, found, err); !slices.Equal(got, want) {
			t.Fatalf("secondaries of %s: %q, want %q", primary, got, want)
		}
		found, err = r.informer.ByIndex("words", primary.Name)
		if got := versions(t, found, err); !slices.Equal(got, words) {
			t.Fatalf("under %s: %q, want %q", primary, got, words)
		}
	}
}

// TestModel_C51_C53_WhatRelationsAndIndexesTellFollowsFromWhatIsShown, and each step is offered to
// those primaries, and to no other, that it concerns before or after.
func TestModel_C51_C53_WhatRelationsAndIndexesTellFollowsFromWhatIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRelated(t)
		t.Repeat(map[string]func(*rapid.T){
			"": r.check,
			"write": func(t *rapid.T) {
				r.expect(t, func() { r.write(t) })
			},
			"delete": func(t *rapid.T) {
				keys := slices.Sorted(maps.Keys(r.live))
				if len(keys) == 0 {
					return
				}
				key := rapid.SampledFrom(keys).Draw(t, "key")
				r.expect(t, func() { r.remove(t, key, r.live[key]) })
			},
			"tell": func(t *rapid.T) { r.expect(t, func() { r.tell(t) }) },
		})
	})
}

// expect makes a step and compares the offers with what it changed.
func (r *related) expect(t *rapid.T, step func()) {
	before := r.shown()
	r.sink.primaries, r.sink.causes = nil, nil
	step()
	want := due(before, r.shown())
	got := slices.Compact(slices.Sorted(slices.Values(r.sink.primaries)))
	if !slices.Equal(got, want) {
		t.Fatalf("offered to %q, want %q", got, want)
	}
}
