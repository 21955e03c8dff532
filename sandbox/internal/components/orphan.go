package components

import (
	"os"
	"strconv"
	"time"
)

const (
	// parentInterval is how often a server looks whether its parent is alive.
	parentInterval = 200 * time.Millisecond
	// exitOrphaned is the exit code of a server that ended itself so.
	exitOrphaned = 125

	// outliveVariable switches the watch off when it is set to anything.
	outliveVariable = "EVENKEEL_SANDBOX_OUTLIVE_PARENT"
	// parentVariable is the process that is to be watched, set by package
	// sandbox. Without it the parent at start is watched; that one may already
	// be the adoptive parent of an orphan.
	parentVariable = "EVENKEEL_SANDBOX_PARENT"
)

// watchParent calls end once the parent of this process is no longer the one it
// started with. It returns at once if the watch is switched off.
//
// It polls: Linux could deliver a signal on the parent's death, but only when the
// starting *thread* ends, which in a Go program happens at any time; macOS has
// nothing of the kind. The parent's own clean-up (a guard process, package guard)
// is faster, but a test under envtest has none: when it is killed, its etcd and
// kube-apiserver would stay for ever.
func watchParent(parent func() int, interval time.Duration, wait func(time.Duration), end func()) {
	if os.Getenv(outliveVariable) != "" {
		return
	}
	started := parent()
	if given, err := strconv.Atoi(os.Getenv(parentVariable)); err == nil && given > 0 {
		started = given
	}
	for parent() == started {
		wait(interval)
	}
	end()
}
