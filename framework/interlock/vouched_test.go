package interlock_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// force takes all finalizers off an object.
func (s *shop) force(o client.Object) {
	s.Helper()
	noError(s.T, s.admin.Patch(s.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// TestAProviderThatHasLostItsFinalizerIsVouchedForByNobody: nothing keeps it, whatever held it
// before. The implementation stays.
func TestAProviderThatHasLostItsFinalizerIsVouchedForByNobody(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		first := s.app("first", "p")
		s.pass(time.Second)
		s.expect([]client.Object{p, first}, nil, first)
		s.owners.stop() // or it would put the finalizer on again
		s.force(p)
		s.pass(time.Second)
		second := s.app("second", "p")
		s.touch(first)
		s.pass(time.Second)
		s.expect([]client.Object{p, first, second}, nil, first)
		for _, app := range []*App{first, second} {
			if got := s.condition(app, "Reconciling"); got != "ProviderUnprotected" {
				t.Errorf("%s waits for reason %q", app.Name, got)
			}
		}
		s.start(s.owners, "owners")
		s.pass(time.Second)
		s.expect([]client.Object{p, first, second}, nil, first, second)
	})
}

// TestWhoHeldAProviderVouchesForNoOtherOfItsName: the other one is asked about, also if the watch
// shows the one after the other, and never that there was none.
func TestWhoHeldAProviderVouchesForNoOtherOfItsName(t *testing.T) {
	openShop(t, func(s *shop) {
		p := s.database("p")
		first := s.app("first", "p")
		s.pass(time.Second)
		s.model.Stall("databases")
		s.tearDown(first) // by hand, as the database is to go by force
		s.owners.stop()
		s.delete(p)
		s.force(p)
		other := s.database("p")
		s.start(s.owners, "owners") // which puts the finalizer on
		s.pass(time.Second)
		s.requests()
		s.model.Expire("databases")
		s.model.Release("databases")
		second := s.app("second", "p")
		s.pass(time.Minute)
		if sent := s.requests(); count(sent, "apps: get databases p") == 0 {
			t.Errorf("nobody asked about the other database: %q", sent)
		}
		s.expect([]client.Object{other, first, second}, []client.Object{p}, first, second)
	})
}
