package actors

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// Actor is a set of actors.
type Actor uint

const (
	// GarbageCollector deletes what has lost its owners, and ends foreground deletion and orphaning.
	GarbageCollector Actor = 1 << iota
	// Namespaces deletes the content of namespaces that are deleted, Pods first, and lets them go when
	// it is gone. It writes no conditions. It needs [apimodel.Options.Namespaces].
	Namespaces
	// Workloads is the controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs.
	// They end with what the real ones end with, and go there by fewer steps: a rollout ignores
	// maxSurge and maxUnavailable. They adopt nothing and write no Events. CronJobs make no Jobs, and
	// HorizontalPodAutoscalers and PodDisruptionBudgets have no status.
	Workloads
	// Nodes is a scheduler, and the kubelet of the only node, which has room for everything: Pods are
	// bound, run, become ready and end. Containers never restart; init containers do not run.
	Nodes

	all = 1<<iota - 1
)

// Options configure the actors.
type Options struct {
	// Only are the actors to start. Default: all.
	Only Actor
	// CollectAfter is the time from a commit until the garbage collector acts on it. Default 1 s.
	CollectAfter time.Duration
	// EmptyAfter is the same for the deletion of namespaces. Default 5 s, as in Kubernetes.
	EmptyAfter time.Duration
	// ReactAfter is the time from a commit until the controllers of workloads, the scheduler and the
	// kubelet act on it. Default 100 ms.
	ReactAfter time.Duration
	// StartAfter is the time from the binding of a Pod until it runs and is ready. Default 1 s.
	StartAfter time.Duration
	// RunFor is how long Pods run that are not restarted, such as those of Jobs. Default 1 s.
	RunFor time.Duration
	// StopAfter is how long Pods take to end that are deleted, if their grace period is not shorter.
	// Default 1 s.
	StopAfter time.Duration
	// Ready reports whether a Pod that starts is ready. Default: it is. It must not change the Pod.
	Ready func(pod *unstructured.Unstructured) bool
	// Fails reports whether a Pod that is not restarted fails at its end. Default: it succeeds. It
	// must not change the Pod.
	Fails func(pod *unstructured.Unstructured) bool
}

// Start starts the actors, which act until ctx ends. It returns at once. It must be called in the
// bubble of the model.
func Start(ctx context.Context, model *apimodel.Model, options Options) {
	options = options.withDefaults()
	l := newLoop(model)
	if options.Only&GarbageCollector != 0 {
		l.add(&collector{loop: l}, options.CollectAfter)
	}
	if options.Only&Namespaces != 0 {
		l.add(&emptier{loop: l}, options.EmptyAfter)
	}
	if options.Only&Workloads != 0 {
		l.add(deployments{workload{l, "apps/v1", "deployments", "Deployment"}}, options.ReactAfter)
		l.add(replicaSets{workload{l, "apps/v1", "replicasets", "ReplicaSet"}}, options.ReactAfter)
		l.add(statefulSets{workload{l, "apps/v1", "statefulsets", "StatefulSet"}}, options.ReactAfter)
		l.add(daemonSets{workload{l, "apps/v1", "daemonsets", "DaemonSet"}}, options.ReactAfter)
		l.add(jobs{workload{l, "batch/v1", "jobs", "Job"}}, options.ReactAfter)
	}
	if options.Only&Nodes != 0 {
		l.due[task{len(l.casts), theNode}] = deadline{at: time.Now(), order: 1}
		l.add(&nodes{l, options}, options.ReactAfter)
	}
	go l.run(ctx)
}

func (o Options) withDefaults() Options {
	if o.Only == 0 {
		o.Only = all
	}
	for _, d := range []struct {
		value     *time.Duration
		byDefault time.Duration
	}{
		{&o.CollectAfter, time.Second},
		{&o.ReactAfter, 100 * time.Millisecond},
		{&o.StartAfter, time.Second},
		{&o.RunFor, time.Second},
		{&o.StopAfter, time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.byDefault
		}
	}
	return o
}
