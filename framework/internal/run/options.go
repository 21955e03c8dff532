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

func FinalizerDomain(group string) string {
	if group == "" {
		return "evenkeel.dev"
	}
	return group
}

// Options are [framework.ControllerOptions] without the type of the primary, with their defaults.
type Options struct {
	Name        string
	Secondaries []any // by which reads name them
	Sources     []eventsource.Source

	Namespaces                                  []string
	LabelSelector, FieldSelector, ShardSelector string
	ListLimit                                   int64
	AllGenerations, AllEvents                   bool
	Finalizer, FormerFinalizer, FieldManager    string
	PrimaryWrites, SecondaryWrites              write.Mode
	Retry                                       retry.Policy
	MaxInterval                                 time.Duration
	RateLimit                                   scheduler.RateLimit
	Concurrency                                 int
	RunTimeout                                  time.Duration
	KeepRecords, KeepRecordsPerPrimary          int
}
