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
		v.pass(30 * time.Second) // two minutes may have passed before, as a new watch delays its first bookmark
		noError(v.t, v.op.Ready())
		v.pass(160 * time.Second)
		if err := v.op.Ready(); err == nil || !strings.Contains(err.Error(), "Kind=WebPage: nothing was heard for ") {
			v.t.Errorf("after more than three minutes of silence: %v", err)
		}
		v.model.Release("webpages")
		v.pass(2 * time.Minute)
		noError(v.t, v.op.Ready())
	})
}
