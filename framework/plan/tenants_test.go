package plan_test

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
)

type (
	tenant        = corev1.ConfigMap // with the label tenant=true
	tenantContext = framework.Context[*tenant]
)

// directory is a ConfigMap that all tenants enter themselves in, each by a merge patch.
const directory = "directory"

// tenants is a reconciler with all that a run can write: a workflow with a Secret, an object that
// it reads live and updates, one that all primaries share, the primary itself, and a Cleanup.
type tenants struct {
	shared framework.Secondary[*corev1.ConfigMap]
	leases framework.Secondary[*coordinationv1.Lease]
	secret dependent.Kubernetes[*tenant, *corev1.Secret]
}

var _ framework.Cleaner[*tenant] = (*tenants)(nil)

func registerTenants(op *framework.Operator) error {
	r := &tenants{}
	r.shared.LabelSelector, r.shared.Map = "directory=true", func(*corev1.ConfigMap) []types.NamespacedName { return nil }
	r.secret.Desired = dependent.Pure(func(p *tenant) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-secret"},
			StringData: map[string]string{"password": p.Data["password"], "user": p.Name},
		}
	})
	return framework.Register(op, r, framework.ControllerOptions[*tenant]{
		Name: "tenants", LabelSelector: "tenant=true", AllGenerations: true,
		Secondaries: framework.Secondaries(&r.shared, &r.leases),
		Workflow:    framework.Workflow[*tenant]{Dependents: []framework.Dependent[*tenant]{&r.secret}},
	})
}

func (r *tenants) Reconcile(ctx context.Context, p *tenant, c *tenantContext) (none framework.UpdateControl[*tenant], err error) {
	if p.Data["fails"] != "" {
		return none, fmt.Errorf("%s fails, as it should", p.Name)
	}
	if err := r.enter(ctx, p, c, fmt.Sprintf("%q", p.Data["phone"])); err != nil {
		return none, err
	}
	if err := r.lease(ctx, p, c); err != nil {
		return none, err
	}
	secret, err := r.secret.Get(c)
	if err != nil || secret == nil {
		return none, fmt.Errorf("a run does not read what it wrote: %w", err)
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "tenant", string(secret.Data["user"]))
	return framework.PatchResource(p), nil
}

// enter writes an entry into the directory, which is created with the first one.
func (r *tenants) enter(ctx context.Context, p *tenant, c *tenantContext, value string) error {
	shared, err := r.shared.GetNamed(c, p.Namespace, directory)
	if err != nil {
		return err
	}
	if shared == nil {
		shared = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: directory, Labels: map[string]string{"directory": "true"}}}
		if _, err = framework.Create(ctx, c, shared); err != nil && !apierrors.IsAlreadyExists(err) { // another tenant's run
			return err
		}
	}
	_, err = framework.MergePatch(ctx, c, shared, fmt.Appendf(nil, `{"data":{%q:%s}}`, p.Name, value), framework.Unconditional())
	return err
}

// lease creates a Lease and replaces it at once, or replaces that of a former run.
func (r *tenants) lease(ctx context.Context, p *tenant, c *tenantContext) error {
	lease, err := r.leases.GetNamed(c, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		if lease, err = framework.Create(ctx, c, lease, framework.OwnedByPrimary()); err != nil {
			return err
		}
	}
	lease = lease.DeepCopy()
	lease.Spec.HolderIdentity = ptr.To(p.Data["phone"])
	_, err = framework.Update(ctx, c, lease)
	return err
}

func (r *tenants) Cleanup(ctx context.Context, p *tenant, c *tenantContext) (framework.DeleteControl, error) {
	lease, err := r.leases.GetNamed(c, p.Namespace, p.Name)
	if err == nil && lease != nil {
		err = framework.Delete(ctx, c, lease)
	}
	if err == nil {
		err = r.enter(ctx, p, c, "null")
	}
	return framework.RemoveFinalizer(), err
}
