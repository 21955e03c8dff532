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
	// Workflow are the nodes of the controller's workflow, each after its dependencies; none without a
	// workflow. The slice is shared and must not be changed.
	Workflow []Node
}

// Node is a node of a controller's workflow, without its state, which is another one for each
// primary.
type Node struct {
	Name string `json:"name"`
	// Wave is the length of the longest path of dependencies to the node, 0 if it has none.
	Wave int `json:"wave"`
	// DependsOn names the dependencies.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Conditions names the conditions that the node has, as package workflow does: "ready
	// postcondition".
	Conditions []string `json:"conditions,omitempty"`
}

// Election is the state of the leader election. Lease is the name of the lease, empty if there is
// no election. Leading is set while this instance may work.
type Election struct {
	Lease   string
	Leading bool
}
