package frameworktest

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// Version is all there was at one version of the API server, without the namespaces of other
// stories, and what external systems had. It is valid during the call of [Scenario.Always]; read it
// by [Objects], [Ever] and [Items].
type Version struct {
	// Number is the resourceVersion.
	Number int64
	// At is the time since the life began.
	At time.Duration
	// Namespace is the story's.
	Namespace string
	// Changed is the object that changed with this version, in the state after it, and Deleted whether
	// it ceased to exist.
	Changed *unstructured.Unstructured
	Deleted bool

	replay *replay
	items  map[string][]Item // of external systems
	after  string            // what happened, for a failure
}

// replay goes through all versions of a life.
type replay struct {
	life    *life
	live    map[objectID]*unstructured.Unstructured
	ever    map[types.UID]*unstructured.Unstructured // in their last states
	decoded map[string]framework.Object              // by kind and version
}

func newReplay(l *life) *replay {
	return &replay{
		life: l, live: map[objectID]*unstructured.Unstructured{}, ever: map[types.UID]*unstructured.Unstructured{},
		decoded: map[string]framework.Object{},
	}
}

// take goes on to the next version.
func (r *replay) take(c change) objectID {
	id := idOf(c.object)
	r.live[id], r.ever[c.object.GetUID()] = c.object, c.object
	if c.deleted {
		delete(r.live, id)
	}
	return id
}

type objectID struct {
	kind            schema.GroupKind
	namespace, name string
}

func idOf(o *unstructured.Unstructured) objectID {
	return objectID{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// Objects returns the objects of a type at a version, in the order of their names. They are shared
// by all calls, and must not be changed.
func Objects[T framework.Object](v Version) []T { return typedOf[T](v, maps.Values(v.replay.live)) }

// Ever returns all objects of a type that there have been up to a version, each in its last state,
// in the order of their names. They are shared by all calls, and must not be changed.
func Ever[T framework.Object](v Version) []T { return typedOf[T](v, maps.Values(v.replay.ever)) }

// Items returns what the [External] of that name has, in the order in which it was made. All
// stories of a random walk share a system.
func Items(v Version, system string) []Item { return slices.Clone(v.items[system]) }

func typedOf[T framework.Object](v Version, objects iter.Seq[*unstructured.Unstructured]) []T {
	v.replay.needs(reflect.TypeFor[T]())
	var found []T
	for o := range objects {
		if v.replay.life.isOfAnother(v.Namespace, o.GetNamespace()) {
			continue
		}
		if typed, is := v.replay.typed(o).(T); is {
			found = append(found, typed)
		}
	}
	slices.SortFunc(found, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// List returns the objects of a type that there are, without the namespaces of other stories, in
// the order of their names. They must not be changed.
func List[T framework.Object](w *World) []T {
	v := Version{Namespace: w.Namespace, replay: newReplay(w.life)}
	for _, c := range w.life.server.changes() {
		v.replay.take(c)
	}
	return Objects[T](v)
}

// AtMost returns a check for [Scenario.Always]: at no version are there more than n objects of a
// type. Objects in deletion count.
func AtMost[T framework.Object](n int) func(v Version) error {
	return func(v Version) error {
		found := Objects[T](v)
		if len(found) <= n {
			return nil
		}
		names := make([]string, len(found))
		for i, o := range found {
			names[i] = o.GetName()
		}
		return fmt.Errorf("there are %d objects of type %T, at most %d may be: %s", len(found), *new(T), n, strings.Join(names, ", "))
	}
}

// needs fails the life if the scheme lacks a Go type: then objects of the type are never found.
func (r *replay) needs(of reflect.Type) {
	if of.Kind() != reflect.Pointer {
		return
	}
	example, isObject := reflect.New(of.Elem()).Interface().(framework.Object)
	if _, isUntyped := example.(runtime.Unstructured); isUntyped || !isObject {
		return
	}
	if _, _, err := r.life.scenario.Scheme.ObjectKinds(example); err != nil {
		r.life.fail("Scenario: Scheme: none of the type is ever found: %v", err)
	}
}

// typed returns the object as a Go type, as it is if the scheme has none.
func (r *replay) typed(o *unstructured.Unstructured) framework.Object {
	key := o.GetKind() + " " + o.GetResourceVersion()
	if known := r.decoded[key]; known != nil {
		return known
	}
	made, err := r.life.scenario.Scheme.New(o.GroupVersionKind())
	typed, isObject := made.(framework.Object)
	if err != nil || !isObject || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed) != nil {
		typed = o
	}
	r.decoded[key] = typed
	return typed
}

// always checks what must hold at every version, for each story, and after each change of an
// external system: then each story is at the last version that concerned it.
func (l *life) always() {
	if l.scenario.Always == nil {
		return
	}
	l.mu.Lock()
	pasts := slices.Clone(l.pasts)
	l.mu.Unlock()
	r, items, at := newReplay(l), map[string][]Item{}, make([]*Version, len(l.stories))
	// outside goes on to what external systems had just before a version.
	outside := func(version int64) bool {
		for ; len(pasts) > 0 && pasts[0].after < version; pasts = pasts[1:] {
			items[pasts[0].system] = pasts[0].items
			for _, v := range at {
				if v != nil && !l.holds(*v, ", and then a change of "+pasts[0].system) {
					return false
				}
			}
		}
		return true
	}
	for _, c := range l.server.changes() {
		if isNoise(c) {
			r.take(c)
			continue
		}
		if !outside(c.version) {
			return // what follows from it is not worth a line
		}
		id := r.take(c)
		for i, story := range l.stories {
			if l.isOfAnother(story, id.namespace) {
				continue
			}
			at[i] = &Version{
				Number: c.version, At: c.at.Sub(l.started), Namespace: story, Changed: c.object, Deleted: c.deleted,
				replay: r, items: items, after: fmt.Sprintf("after %s by %s", describe(c), who(c.by)),
			}
			if !l.holds(*at[i], "") {
				return
			}
		}
	}
	outside(math.MaxInt64)
}

// holds checks one version.
func (l *life) holds(v Version, then string) bool {
	err := l.scenario.Always(v)
	if err != nil {
		l.fail("Always, %s%s (%s): %v", v.after, then, v.At, err)
	}
	return err == nil
}

// describe says what a change is.
func describe(c change) string {
	what := c.what
	if c.deleted && !strings.HasPrefix(what, "delete") {
		what += ", which ends"
	}
	name := strings.TrimPrefix(c.object.GetNamespace()+"/"+c.object.GetName(), "/")
	return fmt.Sprintf("%s %s %s", what, c.resource, name)
}

// isOperators reports whether the operator made a change. On a server, all that neither users nor
// the cluster's controllers make counts.
func isOperators(c change) bool {
	by := who(c.by)
	return by != "user" && by != "cluster" && by != "" && by != "seed"
}

// who names those who write, from their user agent.
func who(agent string) string {
	name, process, _ := strings.Cut(agent, "/")
	switch {
	case strings.HasPrefix(process, "process-"):
		return "operator"
	case name == "user":
		return "user"
	case strings.HasPrefix(name, "kube") || name == "kubelet":
		return "cluster"
	}
	return name
}
