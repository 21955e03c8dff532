package contenders

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// ours is this framework.
type ours struct {
	secondaryWrites framework.WriteMode
}

// reconciler is what an author writes with this framework: finalizer and status are the framework's
// business.
type reconciler struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
	tally      *Tally
}

type pageContext = framework.Context[*v1.WebPage]

func (o ours) run(ctx context.Context, config *rest.Config, task Task, tally *Tally) error {
	scheme, err := work.Scheme()
	if err != nil {
		return err
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard(), Namespaces: []string{task.Namespace}})
	if err != nil {
		return err
	}
	r := &reconciler{tally: tally}
	err = framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
		Secondaries: framework.Secondaries(&r.configMaps), Concurrency: task.Workers, SecondaryWrites: o.secondaryWrites,
	})
	if err != nil {
		return err
	}
	return op.Run(ctx)
}

func (r *reconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *pageContext) (framework.UpdateControl[*v1.WebPage], error) {
	defer r.tally.Run()()
	start := time.Now()
	_, err := r.configMaps.Get(c)
	r.tally.Read(start)
	if err == nil {
		_, err = framework.Apply(ctx, c, work.ConfigMap(page), framework.OwnedByPrimary())
	}
	if err != nil {
		return framework.NoUpdate[*v1.WebPage](), err
	}
	work.SetStatus(page)
	return framework.PatchStatus(page), nil
}

// Cleanup is there so that pages get a finalizer; no page is deleted.
func (r *reconciler) Cleanup(context.Context, *v1.WebPage, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}
