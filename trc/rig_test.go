package trc_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// rig is a store with one watch of everything and a subscriber that replays the transitions.
type rig struct {
	t *testing.T
	*trc.Store
	watch  *trc.Watch
	told   []string // transitions since the last call of tells
	replay map[trc.Key]trc.Object
}

const hiddenLabel = "hidden"

func newRig(t *testing.T) *rig {
	r := newRigWithoutWatch(t)
	r.watch = r.AddWatch("")
	return r
}

func newRigWithoutWatch(t *testing.T) *rig { return newRigWith(t, trc.Options{}) }

func newRigWith(t *testing.T, options trc.Options) *rig {
	t.Helper()
	options.Name = "configmaps"
	options.Visible = func(o trc.Object) bool { return o.GetLabels()[hiddenLabel] == "" }
	r := &rig{t: t, replay: map[trc.Key]trc.Object{}, Store: trc.NewStore(options)}
	if err := r.AddIndex("name", func(o trc.Object) []string { return []string{o.GetName()} }); err != nil {
		t.Fatal(err)
	}
	if err := r.AddIndex("version", func(o trc.Object) []string { return []string{o.GetResourceVersion()} }); err != nil {
		t.Fatal(err)
	}
	r.Subscribe(func(transition trc.Transition) {
		r.told = append(r.told, describe(transition))
		if err := apply(r.replay, transition); err != nil {
			t.Error(err)
		}
	})
	return r
}

// apply replays a transition, and says why that is impossible.
func apply(to map[trc.Key]trc.Object, t trc.Transition) error {
	o := t.New
	if o == nil {
		o = t.Old
	}
	key := trc.KeyOf(o)
	if t.Late { // the one step that does not begin where the last one ended
		shown := to[key]
		if t.New == nil && shown != nil && shown.GetUID() == t.Old.GetUID() || t.New != nil && version(shown) != version(t.New) {
			return fmt.Errorf("%s, but there is %s", describe(t), version(shown))
		}
		return nil
	}
	if to[key] != t.Old && (to[key] == nil || t.Old == nil || version(to[key]) != version(t.Old)) {
		return fmt.Errorf("%s, but before it there was %s", describe(t), version(to[key]))
	}
	if t.Old != nil && t.New != nil && t.Old.GetUID() != t.New.GetUID() {
		return fmt.Errorf("%s: another UID", describe(t))
	}
	if t.New == nil {
		delete(to, key)
	} else {
		to[key] = t.New
	}
	return nil
}

func describe(t trc.Transition) string {
	initial := ""
	if t.Initial {
		initial = " initially"
	}
	if t.Late {
		initial = " late"
	}
	switch {
	case t.Old == nil:
		return "add " + t.New.GetName() + " " + version(t.New) + initial
	case t.New == nil:
		return "delete " + t.Old.GetName() + " " + version(t.Old) + initial
	}
	return "update " + t.New.GetName() + " " + version(t.Old) + " " + version(t.New) + initial
}

// version is an object in short: its UID and version, as in "u1@5", or "absent".
func version(o trc.Object) string {
	if o == nil {
		return "absent"
	}
	return string(o.GetUID()) + "@" + o.GetResourceVersion()
}

// object makes one from its short form.
func object(name, short string) *corev1.ConfigMap {
	uid, version, _ := strings.Cut(short, "@")
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

// hidden is an object outside of the selector.
func hidden(name, short string) *corev1.ConfigMap {
	o := object(name, short)
	o.Labels = map[string]string{hiddenLabel: "yes"}
	return o
}

func within(namespace string, o *corev1.ConfigMap) *corev1.ConfigMap {
	o.Namespace = namespace
	return o
}

func key(name string) trc.Key { return trc.Key{Namespace: "ns", Name: name} }

func (r *rig) acknowledge(o trc.Object) {
	r.t.Helper()
	r.must(r.Acknowledge(o, trc.Proof{}))
}

func (r *rig) gone(name, short string) {
	uid, version, _ := strings.Cut(short, "@")
	r.AcknowledgeGone(key(name), types.UID(uid), version)
}

func (r *rig) adds(o trc.Object)    { r.t.Helper(); r.must(r.watch.Add(o)) }
func (r *rig) updates(o trc.Object) { r.t.Helper(); r.must(r.watch.Update(o)) }
func (r *rig) deletes(o trc.Object) { r.t.Helper(); r.must(r.watch.Delete(o)) }
func (r *rig) bookmark(version int) {
	r.t.Helper()
	r.must(r.watch.Bookmark(strconv.Itoa(version)))
}

func (r *rig) lists(version int, objects ...trc.Object) {
	r.t.Helper()
	r.must(r.watch.Replace(items(objects), strconv.Itoa(version)))
}

func objects(all ...trc.Object) []trc.Object { return all }

func items(objects []trc.Object) []any {
	all := make([]any, len(objects))
	for i, o := range objects {
		all[i] = o
	}
	return all
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// sees checks what all kinds of reads return for a name, and that the transitions led there.
func (r *rig) sees(name, want string) {
	r.t.Helper()
	if got := version(r.Get(key(name))); got != want {
		r.t.Errorf("get %s: %s, want %s", name, got, want)
	}
	if got := version(r.replay[key(name)]); got != want {
		r.t.Errorf("transitions of %s lead to %s, want %s", name, got, want)
	}
	if err := agree(r.Store); err != nil {
		r.t.Error(err)
	}
}

// agree checks that get, list and the indexes of a rig's store agree.
func agree(s *trc.Store) error {
	all := s.List("", nil)
	if s.Len() != len(all) {
		return fmt.Errorf("length %d, but %d listed", s.Len(), len(all))
	}
	if keys := s.Keys(""); len(keys) != len(all) {
		return fmt.Errorf("keys %v, but %d listed", keys, len(all))
	}
	byName := map[string]int{}
	for _, o := range all {
		byName[o.GetName()]++
		if got := s.Get(trc.KeyOf(o)); got != o {
			return fmt.Errorf("list has %s, get %s", version(o), version(got))
		}
		same, err := s.ByIndex("version", o.GetResourceVersion())
		if err != nil || !slices.Contains(same, o) {
			return fmt.Errorf("index by version of %s: %v, %w", version(o), same, err)
		}
	}
	for name, count := range byName {
		if same, err := s.ByIndex("name", name); err != nil || len(same) != count {
			return fmt.Errorf("index by name: %d named %s, want %d, %w", len(same), name, count, err)
		}
	}
	return nil
}

// tells checks the transitions since it was last called.
func (r *rig) tells(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.told, want) {
		r.t.Errorf("told %q, want %q", r.told, want)
	}
	r.told = nil
}

// isAhead checks how many keys are ahead of their watch.
func (r *rig) isAhead(want int) {
	r.t.Helper()
	if got := r.Ahead(); got != want {
		r.t.Errorf("%d keys are ahead, want %d", got, want)
	}
}
