package framework_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// A renewal whose answer comes too late is repeated as it was, which changes nothing any more:
// nobody but the leader counts from then. All that follows is lost.
func TestG06ARenewalThatIsRepeatedPutsNothingOff(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		b := r.start("b", copies())
		r.pass(time.Second)
		var updates, began atomic.Int64
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			switch {
			case instance != "a" || request.Resource != "leases":
				return apimodel.Fault{}
			case request.Verb == "get" && updates.Load() == 1:
				return apimodel.Fault{Linger: 2 * time.Second}
			case request.Verb == "get":
				return apimodel.Fault{Drop: true}
			}
			switch updates.Add(1) {
			case 1:
				began.Store(time.Now().UnixNano())
				return apimodel.Fault{Linger: time.Minute}
			case 2:
				return apimodel.Fault{}
			}
			return apimodel.Fault{Drop: true}
		})
		for !b.Leading() {
			r.pass(100 * time.Millisecond)
			if late := time.Since(time.Unix(0, began.Load())); began.Load() > 0 && late > 10*time.Second && a.Leading() {
				r.Errorf("a leads %v after it had renewed the lease", late)
			}
		}
		if n := updates.Load(); n < 2 {
			r.Errorf("the lease was written %d times: the renewal was not repeated", n)
		}
		noError(r.T, a.stop())
		noError(r.T, b.stop())
	})
}
