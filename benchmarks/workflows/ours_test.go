package workflows

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
)

// reconciler shows how far the workflow is, which is all that is left to do.
type reconciler struct{ runs atomic.Int64 }

func (r *reconciler) Reconcile(_ context.Context, p *page, c *pageContext) (pageUpdate, error) {
	defer r.runs.Add(1)
	conditions.MarkWorkflow(&p.Status.Conditions, p.Generation, c.WorkflowResult())
	return framework.PatchStatus(p), nil
}

// ours is an operator that runs.
type ours struct {
	*reconciler
	triggers chan<- eventsource.Trigger
	stop     func()
}

// startOurs runs a workflow of the pages of a namespace.
func startOurs(t *testing.T, config *rest.Config, namespace string, dependents []framework.Dependent[*page]) *ours {
	t.Helper()
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard(), Namespaces: []string{namespace}})
	if err != nil {
		t.Fatal(err)
	}
	triggers := make(chan eventsource.Trigger)
	resync, err := eventsource.NewChannel("resync", triggers)
	if err != nil {
		t.Fatal(err)
	}
	r := &reconciler{}
	err = framework.Register(op, r, framework.ControllerOptions[*page]{
		Workflow: framework.Workflow[*page]{Dependents: dependents}, Sources: []eventsource.Source{resync}, Concurrency: workers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &ours{reconciler: r, triggers: triggers, stop: running(t, op.Run)}
}

// workers is how many pages may be worked on at a time, by either contender.
const workers = 16

// running calls a function until stop is called, or the test ends.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}
