package interlock

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// stripped is a dependent whose claims an admission policy removes.
type stripped struct{ reads int }

func (s *stripped) claim(context.Context, []types.NamespacedName) ([]types.NamespacedName, error) {
	return nil, nil
}

func (s *stripped) provider(context.Context, types.NamespacedName) (types.UID, Reason, error) {
	s.reads++
	return "uid", 0, nil
}

func (s *stripped) vouches(dependentID, types.NamespacedName, types.UID) (vouched, dying bool) {
	return true, false
}

func TestAClaimThatIsNotCarriedGrantsNothing(t *testing.T) {
	h, key := newHolders(), types.NamespacedName{Name: "p"}
	h.enter(dependentID{uid: "other"}, key, "uid")
	side := &stripped{}
	denials, err := h.acquire(t.Context(), dependentID{uid: "me"}, []types.NamespacedName{key}, side)
	if err != nil || len(denials) != 1 || denials[0] != (Denial{key, Unclaimable}) || side.reads != 0 {
		t.Errorf("denials %v, error %v, %d reads", denials, err, side.reads)
	}
}

func TestNothingIsLeftOfWhoHasLetGo(t *testing.T) {
	h, a, b := newHolders(), types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	first, second := dependentID{a, "1"}, dependentID{b, "2"}
	h.enter(first, a, "uid")
	h.enter(first, b, "uid")
	h.enter(second, b, "uid")
	h.leave(second, a, b)
	h.leaveAll(dependentID{a, "another"}) // of the same name: the first is gone
	if len(h.held) != 0 || len(h.names) != 0 {
		t.Errorf("left: %v %v", h.held, h.names)
	}
}

func TestWhoHeldAnotherProviderOfTheNameHoldsNothing(t *testing.T) {
	h, key := newHolders(), types.NamespacedName{Name: "p"}
	h.enter(dependentID{key, "first"}, key, "old")
	h.enter(dependentID{key, "second"}, key, "new")
	if uid, holds := h.uidOf(dependentID{key, "first"}, key); holds {
		t.Errorf("the first holds %s", uid)
	}
	h.leaveAll(dependentID{key, "second"})
	if len(h.held) != 0 || len(h.names) != 0 {
		t.Errorf("left: %v %v", h.held, h.names)
	}
}

// TestAProviderOfTwoRelationsMayBeInACycleByEither: what one guard says is not what the other has
// said.
func TestAProviderOfTwoRelationsMayBeInACycleByEither(t *testing.T) {
	w := newWaitGraph().(*waitGraph)
	a, b, c := object{kind: "a"}, object{kind: "b"}, object{kind: "c"}
	w.wait(b, "one", a)
	w.wait(b, "two", c)
	if cycle, _ := w.wait(a, "one", b); len(cycle) != 3 || cycle[0] != a || cycle[1] != b || cycle[2] != a {
		t.Errorf("%v", cycle)
	}
	w.done(b, "one")
	if cycle, _ := w.wait(a, "one", b); cycle != nil {
		t.Errorf("it is none any more: %v", cycle)
	}
	w.done(b, "two")
	w.done(a, "one")
	if len(w.by) != 0 {
		t.Errorf("left: %v", w.by)
	}
}
