package run

import (
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// FinalizerSuffix ends default finalizers, unless that makes them too long.
const FinalizerSuffix = "-finalizer"

// FinalizerDomain returns the domain of default finalizers for kinds of an API group.
func FinalizerDomain(group string) string {
	if group == "" {
		return "evenkeel.dev"
	}
	return group
}

// Options are framework.ControllerOptions without the Go type of the primary. Defaults are already
// set; framework.ControllerOptions describes each field.
type Options struct {
	Name        string               // the controller's name
	Secondaries []any                // by pointer: reads name them so
	Sources     []eventsource.Source // the author's sources

	Namespaces            []string            // none for those of the operator
	LabelSelector         string              // of primaries; empty for all
	FieldSelector         string              // of primaries; empty for all
	ShardSelector         string              // of primaries; empty for all
	ListLimit             int64               // objects per page of a list; 0 to stream
	AllGenerations        bool                // updates without a new generation trigger runs, too
	AllEvents             bool                // deleted primaries have a final run; no finalizer
	Finalizer             string              // the controller's finalizer
	FormerFinalizer       string              // counts as the controller's, is not added; may be empty
	FieldManager          string              // of all writes
	PrimaryWrites         write.Mode          // how UpdateControl writes
	SecondaryWrites       write.Mode          // how the writer writes
	Retry                 retry.Policy        // after failed runs
	MaxInterval           time.Duration       // longest time without a run of a primary
	RateLimit             scheduler.RateLimit // of the runs of each primary
	Concurrency           int                 // runs at the same time
	RunTimeout            time.Duration       // the deadline of a run
	KeepRecords           int                 // records of the controller
	KeepRecordsPerPrimary int                 // records of each primary
}
