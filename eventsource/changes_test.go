package eventsource

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

func TestAChangeMakesThePrimaryDueThatTheFunctionTells(t *testing.T) {
	changes, err := NewChanges("colors", func(old, new *corev1.ConfigMap) bool { return old.Labels["color"] != new.Labels["color"] })
	if err != nil {
		t.Fatal(err)
	}
	version := func(o *corev1.ConfigMap, version string) *corev1.ConfigMap {
		o.ResourceVersion = version
		return o
	}
	red, blue, same := version(primary("a", "u1", "red"), "1"), version(primary("a", "u1", "blue"), "2"), version(primary("a", "u1", "red"), "3")
	n := &notes{}
	changes.PrimaryChanged(red, blue) // before the start it is notified of existing primaries
	for range 2 {
		stop, err := changes.Start(n)
		if err != nil || !isSynced(changes) || changes.Err() != nil || changes.Name() != "colors" {
			t.Fatal(err, changes.Err(), changes.Name())
		}
		changes.PrimaryChanged(nil, red)
		changes.PrimaryChanged(red, same)
		n.expect(t)
		changes.PrimaryChanged(red, blue)
		n.expect(t, "a colors 2")
		changes.PrimaryChanged(red, primary("a", "u2", "blue"))
		changes.PrimaryChanged(blue, nil)
		stop()
		changes.PrimaryChanged(red, blue)
		n.expect(t)
	}
}

func TestChangesSayWhatIsMissing(t *testing.T) {
	for _, make := range []func() (*Changes[trc.Object], error){
		func() (*Changes[trc.Object], error) {
			return NewChanges("", func(_, _ trc.Object) bool { return true })
		},
		func() (*Changes[trc.Object], error) { return NewChanges[trc.Object]("nil", nil) },
	} {
		if changes, err := make(); changes != nil || err == nil {
			t.Errorf("%v, %v", changes, err)
		}
	}
}

// TestTheEndOfOneStartEndsNoLaterOne: the last one counts.
func TestTheEndOfOneStartEndsNoLaterOne(t *testing.T) {
	changes, err := NewChanges("colors", func(_, _ *corev1.ConfigMap) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	one, two := &notes{}, &notes{}
	stop, _ := changes.Start(one)
	_, _ = changes.Start(two)
	stop()
	changes.PrimaryChanged(primary("a", "u1", "red"), primary("a", "u1", "blue"))
	one.expect(t)
	two.expect(t, "a colors")
}

func TestChangesTellWhoHasLeft(t *testing.T) {
	changes, err := NewChanges("colors", func(_, _ *corev1.ConfigMap) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	var left []types.UID
	changes.WhenLeft(func(o *corev1.ConfigMap) { left = append(left, o.UID) })
	for _, change := range [][2]trc.Object{
		{nil, primary("a", "u1", "red")},
		{primary("a", "u1", "red"), primary("a", "u1", "blue")},
		{primary("a", "u1", "red"), primary("a", "u2", "red")},
		{primary("a", "u2", "red"), nil},
	} {
		changes.PrimaryChanged(change[0], change[1])
	}
	if !slices.Equal(left, []types.UID{"u1", "u2"}) {
		t.Errorf("%q have left", left)
	}
}

// TestTheOwnerOfChangesMakesAPrimaryDue, while they run.
func TestTheOwnerOfChangesMakesAPrimaryDue(t *testing.T) {
	changes, err := NewChanges("colors", func(_, _ *corev1.ConfigMap) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	due := types.NamespacedName{Name: "a"}
	changes.Due(due)
	stop, _ := changes.Start(n)
	n.expect(t)
	changes.Due(due)
	n.expect(t, "a colors")
	stop()
	changes.Due(due)
	n.expect(t)
}
