package lease

import (
	"testing"
	"time"
)

// awake is a machine that was never suspended.
func awake() time.Duration { return 0 }

// TestG06ARenewalThatIsAnsweredAfterTheDeadlineProlongsNothing: others may lead since. After a
// pause of the process the timer of the deadline has not gone off yet.
func TestG06ARenewalThatIsAnsweredAfterTheDeadlineProlongsNothing(t *testing.T) {
	term := &Term{over: func() {}, asleep: awake, until: time.Now().Add(-time.Second)}
	term.timer = time.AfterFunc(time.Hour, term.expire)
	defer term.Stop()
	term.Extend(time.Now().Add(time.Hour), 0)
	if term.Lasts() {
		t.Error("the term goes on")
	}
}

// TestG06ATimerThatGoesOffWhileTheTermIsRenewedEndsNothing: the renewal was first.
func TestG06ATimerThatGoesOffWhileTheTermIsRenewedEndsNothing(t *testing.T) {
	ended := false
	term := NewTerm(func() { ended = true }, awake, nil)
	defer term.Stop()
	term.Extend(time.Now().Add(time.Hour), 0)
	term.expire()
	if lasts := term.Lasts(); !lasts || ended {
		t.Errorf("the term lasts: %v, was ended: %v", lasts, ended)
	}
}

func TestTheTimeThatAMachineIsSuspendedForStandsStillWhileItIsNot(t *testing.T) {
	before := asleep()
	time.AfterFunc(0, func() {})
	if after := asleep(); before < 0 || after-before > time.Minute || before-after > time.Minute {
		t.Errorf("%v, and then %v", before, after)
	}
}
