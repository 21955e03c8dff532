package framework_test

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// plant makes nodes that are ConfigMaps, as "p-web" for the node web of the page p, or Secrets.
type plant struct {
	maps    framework.Secondary[*corev1.ConfigMap]
	secrets framework.Secondary[*corev1.Secret]

	mu  sync.Mutex // guards log, of what the nodes did, as "p +web" and "p -web"
	log []string
}

func (f *plant) note(c *pageContext, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, c.Key().Name+" "+what)
}

func (f *plant) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// theMap reads the ConfigMap of a node, nil if there is none.
func (f *plant) theMap(c *pageContext, node string) (*corev1.ConfigMap, error) {
	return f.maps.GetNamed(c, c.Key().Namespace, c.Key().Name+"-"+node)
}

// says is met once the ConfigMap of a node says something, which nobody but the specs does.
func (f *plant) says(node, word string) workflow.Condition[*pageContext] {
	return func(_ context.Context, c *pageContext) (workflow.Verdict, error) {
		m, err := f.theMap(c, node)
		if err != nil || m == nil || m.Data[word] == "" {
			return workflow.NotMet("%s does not say %s", node, word), err
		}
		return workflow.Met(), nil
	}
}

// isGone is met once the ConfigMap of a node is.
func (f *plant) isGone(node string) workflow.Condition[*pageContext] {
	return func(_ context.Context, c *pageContext) (workflow.Verdict, error) {
		m, err := f.theMap(c, node)
		if err != nil || m != nil {
			return workflow.NotMet("%s is there", node), err
		}
		return workflow.Met(), nil
	}
}

// configMap is a node that is there as long as it is wanted.
func (f *plant) configMap(name string, dependsOn ...string) pageNode {
	return pageNode{
		Node: workflow.Node[*pageContext]{
			Name: name, DependsOn: dependsOn,
			Reconcile: func(ctx context.Context, c *pageContext) error {
				m, err := f.theMap(c, name)
				if err == nil && m == nil {
					m = configMapOf(c.Primary(), "x")
					m.Name += "-" + name
					_, err = framework.Apply(ctx, c, m, framework.OwnedByPrimary())
					f.note(c, "+"+name)
				}
				return err
			},
			Delete: func(ctx context.Context, c *pageContext) error {
				m, err := f.theMap(c, name)
				if err != nil || m == nil || m.DeletionTimestamp != nil {
					return err
				}
				f.note(c, "-"+name)
				return framework.Delete(ctx, c, m)
			},
		},
		Secondaries: framework.Secondaries(&f.maps),
	}
}

// secret is a node that reads Secrets, and is there without a Delete.
func (f *plant) secret(name string, dependsOn ...string) pageNode {
	return pageNode{
		Node: workflow.Node[*pageContext]{
			Name: name, DependsOn: dependsOn,
			Reconcile: func(ctx context.Context, c *pageContext) error {
				if _, err := f.secrets.List(c); err != nil {
					return err
				}
				s := secretOf(c.Key().Namespace, c.Key().Name, "Opaque")
				_, err := framework.Apply(ctx, c, s, framework.OwnedByPrimary())
				return err
			},
		},
		Secondaries: framework.Secondaries(&f.secrets),
	}
}

// marks is a reconciler that shows what the workflow came to as conditions, and how often it was
// called.
type marks struct {
	mu  sync.Mutex // guards ran
	ran map[string]int
}

func (r *marks) Reconcile(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	r.mu.Lock()
	if r.ran == nil {
		r.ran = map[string]int{}
	}
	r.ran[page.Name]++
	r.mu.Unlock()
	conditions.MarkWorkflow(&page.Status.Conditions, page.Generation, c.WorkflowResult())
	return framework.PatchStatus(page), nil
}

func (r *marks) runs(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[name]
}
