package health

import (
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// MaxFailing is how many failing primaries of a controller are named.
const MaxFailing = 100

// Controller is what a controller has to do now, and what it has done since its process started.
type Controller struct {
	// Name is the controller's name, Kind the group, version and kind of its primaries.
	Name, Kind string
	// Waiting is why the controller has not started yet, empty if it has.
	Waiting string
	scheduler.Load
	// FailingPrimaries are the primaries whose last run failed, in alphabetical order: the first
	// [MaxFailing]. Load.Failing is the number of all.
	FailingPrimaries []trc.Key
	// PausedPrimaries is the number of primaries that are paused: see framework.Paused.
	PausedPrimaries int
}

// Election is the state of the leader election. Lease is the name of the lease, empty if there is
// no election. Leading is set while this instance may work.
type Election struct {
	Lease   string
	Leading bool
}
