package framework_test

import (
	"strings"
	"testing"
	"time"
)

func TestG18AWatchThatIsSilentForTooLongIsNotReady(t *testing.T) {
	inVirtualTime(t, &pages{}, pageOptions{}, func(v *virtual) {
		v.pass(time.Hour)
		noError(v.t, v.op.Ready()) // a quiet resource is none that is dead
		v.model.Stall("webpages")
		stalled := time.Now()
		// A new watch is a sign of life, too: one ends after 5 to 10 minutes.
		for v.op.Ready() == nil && time.Since(stalled) < 12*time.Minute {
			v.pass(10 * time.Second)
		}
		if err := v.op.Ready(); err == nil || !strings.Contains(err.Error(), "Kind=WebPage: nothing was heard of it for 3m") {
			v.t.Errorf("after %v of silence: %v", time.Since(stalled), err)
		}
		if took := time.Since(stalled); took < 2*time.Minute {
			v.t.Errorf("not ready after %v", took)
		}
		v.model.Release("webpages")
		v.pass(2 * time.Minute)
		noError(v.t, v.op.Ready())
	})
}
