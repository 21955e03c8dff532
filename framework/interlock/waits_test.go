package interlock

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestACycleOfOneRelationLastsWhateverTheOthersWaitFor: a provider waits by one relation for what
// waits for it, and by another for what does not.
func TestACycleOfOneRelationLastsWhateverTheOthersWaitFor(t *testing.T) {
	named := func(name string) object {
		return object{"*App", types.NamespacedName{Namespace: "default", Name: name}, types.UID(name)}
	}
	p, d, outside := named("p"), named("d"), named("outside")
	synctest.Test(t, func(t *testing.T) {
		w := newWaitGraph().(*waitGraph)
		w.wait(d, "back.example.com", p)
		if cycle, lasted := w.wait(p, "in.example.com", d); len(cycle) != 3 || lasted != 0 {
			t.Errorf("at first: %v for %v", cycle, lasted)
		}
		time.Sleep(cycleGrace)
		if cycle, _ := w.wait(p, "out.example.com", outside); cycle != nil {
			t.Errorf("by the other relation: %v", cycle)
		}
		if cycle, lasted := w.wait(p, "in.example.com", d); len(cycle) != 3 || lasted != cycleGrace {
			t.Errorf("in the end: %v for %v, want %v", cycle, lasted, cycleGrace)
		}
		w.done(p, "out.example.com")
		if _, lasted := w.wait(p, "in.example.com", d); lasted != cycleGrace {
			t.Errorf("when it waits by one relation alone: %v", lasted)
		}
		w.wait(p, "in.example.com", outside)
		if _, lasted := w.wait(p, "in.example.com", d); lasted != 0 {
			t.Errorf("when it has been broken: %v", lasted)
		}
		time.Sleep(cycleGrace)
		w.done(p, "in.example.com")
		if _, lasted := w.wait(p, "in.example.com", d); lasted != 0 {
			t.Errorf("when it has ended: %v", lasted)
		}
	})
}
