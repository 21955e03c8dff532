package external_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// Monitor is what a monitoring service has for a page. The service chooses the ID, and keeps
// labels.
type Monitor struct {
	ID, URL, Label string
	Running        bool
}

// Monitoring is a client of that service.
type Monitoring interface {
	Create(ctx context.Context, m Monitor, idempotencyKey string) (Monitor, error)
	Update(ctx context.Context, m Monitor) (Monitor, error)
	Delete(ctx context.Context, id string) error
	ByID(ctx context.Context, id string) (Monitor, error)
	ByLabel(ctx context.Context, label string) ([]Monitor, error)
}

// StatusError is what the client returns.
type StatusError int

func (e StatusError) Error() string { return http.StatusText(int(e)) }

// monitorOf is the monitor of a page. Its id is remembered in a ConfigMap.
func monitorOf(service Monitoring) *external.Value[*v1.WebPage, Monitor] {
	type pageContext = framework.Context[*v1.WebPage]
	return &external.Value[*v1.WebPage, Monitor]{
		Name: "monitor",
		Desired: func(_ context.Context, page *v1.WebPage, _ *pageContext) (Monitor, error) {
			return Monitor{URL: page.Status.URL}, nil
		},
		Matches: func(actual, desired Monitor) bool { return actual.URL == desired.URL },
		Create: func(ctx context.Context, _ *pageContext, desired Monitor, as external.Creation) (Monitor, error) {
			desired.Label = as.Tag // by which Find finds it
			return service.Create(ctx, desired, as.Token)
		},
		Update: func(ctx context.Context, _ *pageContext, actual, desired Monitor) (Monitor, error) {
			actual.URL = desired.URL
			return service.Update(ctx, actual)
		},
		Remove: func(ctx context.Context, _ *pageContext, actual Monitor) error { return service.Delete(ctx, actual.ID) },

		State: &external.InConfigMap[*v1.WebPage]{},
		ID:    func(m Monitor) string { return m.ID },
		ByID: func(ctx context.Context, _ *pageContext, id string) (Monitor, bool, error) {
			m, err := service.ByID(ctx, id)
			if errors.Is(err, StatusError(http.StatusNotFound)) {
				return m, false, nil
			}
			return m, err == nil, err // any other error is no answer
		},
		Find: func(ctx context.Context, _ *pageContext, tag string) (Monitor, bool, error) {
			found, err := service.ByLabel(ctx, tag)
			if err != nil || len(found) == 0 {
				return Monitor{}, false, err
			}
			return found[0], true, nil
		},
		Ready: func(m Monitor) workflow.Verdict {
			if m.Running {
				return workflow.Met()
			}
			return workflow.NotMet("monitor %s is not running yet", m.ID)
		},
	}
}

// A monitor in a service that chooses ids itself: whatever happens between the creation and its
// answer, there is one for each page.
func ExampleValue() {
	options := func(service Monitoring) framework.ControllerOptions[*v1.WebPage] {
		return framework.ControllerOptions[*v1.WebPage]{
			Workflow: framework.Workflow[*v1.WebPage]{Dependents: []framework.Dependent[*v1.WebPage]{monitorOf(service)}},
		}
	}
	_ = options
}

// MonitoredReconciler has no workflow. It is a Cleaner, because otherwise nothing would remove the
// monitor.
type MonitoredReconciler struct {
	monitor *external.Value[*v1.WebPage, Monitor]
}

func (r *MonitoredReconciler) Reconcile(ctx context.Context, _ *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	_, _, err := r.monitor.Reconcile(ctx, c)
	return framework.NoUpdate[*v1.WebPage](), err
}

func (r *MonitoredReconciler) Cleanup(ctx context.Context, _ *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), r.monitor.Delete(ctx, c)
}

func ExampleValue_Reconcile() {
	register := func(op *framework.Operator, service Monitoring) error {
		r := &MonitoredReconciler{monitor: monitorOf(service)}
		return framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
			Secondaries: r.monitor.Secondaries(), Sources: r.monitor.Sources(),
		})
	}
	_ = register
}
