package frameworktest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
)

// DependentCheck configures [CheckDependent].
type DependentCheck[P framework.Object] struct {
	// New creates the dependent for a process of the operator. Required. All must have the same name.
	// What it needs outside of the cluster it gets by [Process.External].
	New func(p *Process) framework.Dependent[P]
	// Primary is a primary that needs it. Required.
	Primary P
	// Change is a JSON merge patch that changes what the primary needs. Default: it is not changed.
	Change string
	// CRDs, Scheme, Mask and Cluster are those of a [Scenario].
	CRDs    string
	Scheme  *runtime.Scheme
	Mask    func(o *unstructured.Unstructured)
	Cluster Cluster
}

// CheckDependent checks an author's own dependent, alone in a workflow, in virtual time:
//
//   - It describes itself with one name.
//   - It makes what the primary needs, follows a change of the primary, and deletes what the
//     platform does not, through a fault at each of its writes, with the verdicts of [Everywhere].
//   - Another run, as after a restart, changes nothing.
//   - What others delete comes back as it was.
//   - It does not change the primary, which all nodes share.
//
// Each failure is reported with the rule that was broken. It must not be called from within a
// bubble.
func CheckDependent[P framework.Object](t *testing.T, check DependentCheck[P]) {
	t.Helper()
	if problem := check.problem(t); problem != "" {
		t.Error("frameworktest: " + problem)
	}
}

// problem returns the rule that is broken, with the report, or "".
func (check DependentCheck[P]) problem(t *testing.T) string {
	t.Helper()
	if check.New == nil || reflect.ValueOf(&check.Primary).Elem().IsZero() {
		return "DependentCheck: New and Primary are required"
	}
	for _, rule := range check.rules() {
		s := Scenario{
			CRDs: check.CRDs, Scheme: check.Scheme, Mask: check.Mask, Cluster: check.Cluster, Points: rule.points, Story: rule.story,
			RegisterWith: func(op *framework.Operator, p *Process) error { return check.register(op, p) },
		}
		report := s.Explore(t)
		if len(report.Failed()) > 0 {
			return fmt.Sprintf("dependent: %s: %s", rule.name, report) // what follows would say the same
		}
	}
	return ""
}

type dependentRule struct {
	name   string
	points []Point
	story  func(w *World)
}

func (check DependentCheck[P]) rules() []dependentRule {
	none := []Point{}
	return []dependentRule{
		{"it describes itself with one name, and leaves the primary alone", none, func(w *World) { w.Create(check.Primary); w.Rest() }},
		{"another run changes nothing", none, func(w *World) {
			w.Create(check.Primary)
			w.Rest()
			before := w.life.server.count()
			w.Restart()
			w.Rest()
			if after := w.life.server.count(); after != before {
				w.Errorf("a restart, after which nothing is to do, made %d changes", after-before)
			}
		}},
		{"what others delete comes back", none, func(w *World) {
			w.Create(check.Primary)
			w.Rest()
			before := stateOf(w.life, historyOf(w.life), w.Namespace, canon.Options{}, false)
			w.deleteAllOf(check.Primary)
			w.Rest()
			w.Proceed(time.Hour) // until whoever polls has polled
			if after := stateOf(w.life, historyOf(w.life), w.Namespace, canon.Options{}, false); !reflect.DeepEqual(before, after) {
				w.Errorf("others deleted everything but the primary, and there is %d instead of %d", len(after), len(before))
			}
		}},
		{"it comes to the same end through every fault", nil, func(w *World) {
			w.Create(check.Primary)
			w.Rest()
			if check.Change != "" {
				w.Merge(check.Primary, check.Change)
				w.Rest()
			}
			w.Delete(check.Primary)
		}},
	}
}

// deleteAllOf deletes, as others do, all that the operator has made but the primary.
func (w *World) deleteAllOf(primary framework.Object) {
	kinds, _, err := w.life.scenario.Scheme.ObjectKinds(primary)
	w.must("find the kind of", primary, err)
	type made struct {
		kind            schema.GroupVersionKind
		namespace, name string
	}
	theirs := map[made]bool{}
	for _, c := range w.life.server.changes() {
		o := c.object
		id := made{o.GroupVersionKind(), o.GetNamespace(), o.GetName()}
		if isOperators(c) && !isNoise(c) && id.kind.GroupKind() != kinds[0].GroupKind() {
			theirs[id] = !c.deleted
		}
	}
	for id, there := range theirs {
		if there {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(id.kind)
			o.SetNamespace(id.namespace)
			o.SetName(id.name)
			w.Delete(o)
		}
	}
}

// register registers a controller whose workflow is the dependent.
func (check DependentCheck[P]) register(op *framework.Operator, p *Process) error {
	dependent := check.New(p)
	one, err := dependent.Describe()
	if err != nil {
		return err
	}
	other, err := check.New(p).Describe()
	if err != nil {
		return err
	}
	if one.Name != other.Name || one.Name == "" {
		return fmt.Errorf("it describes itself as %q, and then as %q", one.Name, other.Name)
	}
	for _, function := range []*func(context.Context, *framework.Context[P]) error{&one.Reconcile, &one.Delete} {
		if call := *function; call != nil {
			*function = func(ctx context.Context, c *framework.Context[P]) error {
				before := c.Primary().DeepCopyObject()
				err := call(ctx, c)
				if !reflect.DeepEqual(before, c.Primary().DeepCopyObject()) {
					p.life.fail("the dependent has changed the primary %s, which all nodes share", c.Key())
				}
				return err
			}
		}
	}
	return framework.Register(op, idle[P]{}, framework.ControllerOptions[P]{
		Workflow: framework.Workflow[P]{Dependents: []framework.Dependent[P]{one}},
	})
}

// idle leaves everything to the workflow.
type idle[P framework.Object] struct{}

func (idle[P]) Reconcile(context.Context, P, *framework.Context[P]) (framework.UpdateControl[P], error) {
	return framework.NoUpdate[P](), nil
}
