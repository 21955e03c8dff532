package conditionstest

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

func meta(p *page) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name} }

func podTemplate(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none:1"}}},
	}
}

func applying[S framework.Object](desired func(p *page) S) step {
	return func(ctx context.Context, c *pageContext) error {
		_, err := framework.Apply(ctx, c, desired(c.Primary()), framework.OwnedByPrimary())
		return err
	}
}

func deleting[S framework.Object](of *framework.Secondary[S], options ...framework.WriteOption) step {
	return func(ctx context.Context, c *pageContext) error {
		found, err := of.Get(c)
		if err != nil {
			return err
		}
		if any(found) == any(*new(S)) || found.GetDeletionTimestamp() != nil {
			return nil
		}
		return framework.Delete(ctx, c, found, options...)
	}
}

// after is a node that makes a ConfigMap once another is ready.
func after(name string) pageNode {
	return pageNode{Node: workflow.Node[*pageContext]{
		Name: "after", DependsOn: []string{name},
		Reconcile: applying(func(p *page) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: meta(p)} }),
	}}
}

func hasConfigMap(p *page) func() bool {
	return func() bool {
		err := admin.Get(ctx, client.ObjectKeyFromObject(p), &corev1.ConfigMap{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		return !apierrors.IsNotFound(err)
	}
}

var _ = Describe("C102 Conditions on a whole control plane", func() {
	It("a Deployment is available when its Pods are, and holds up what follows until then", func() {
		ns := namespace()
		var deployments framework.Secondary[*appsv1.Deployment]
		operate(ns, nil, []pageNode{{
			Secondaries: framework.Secondaries(&deployments),
			Node: workflow.Node[*pageContext]{
				Name: "deployment", ReadyPostcondition: met(&deployments, ready.Deployment),
				Reconcile: applying(func(p *page) *appsv1.Deployment {
					return &appsv1.Deployment{ObjectMeta: meta(p), Spec: appsv1.DeploymentSpec{
						Replicas: ptr.To[int32](2), Template: podTemplate(p.Name),
						Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}},
					}}
				}),
			},
		}, after("deployment")})
		p := newPage(ns, "p")
		Eventually(condition(p, "Ready")).Should(Equal("True: 2 of 2 nodes are as they should be"))
		now := &appsv1.Deployment{}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), now)).To(Succeed())
		Expect(now.Status.AvailableReplicas).To(BeEquivalentTo(2))
		first := &corev1.ConfigMap{}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), first)).To(Succeed())
		for _, c := range now.Status.Conditions {
			if c.Type == appsv1.DeploymentAvailable {
				Expect(first.CreationTimestamp.Before(&c.LastTransitionTime)).To(BeFalse())
			}
		}
	})

	DescribeTable("a Job", func(change func(*batchv1.Job), want string, follows bool) {
		ns := namespace()
		var jobs framework.Secondary[*batchv1.Job]
		operate(ns, nil, []pageNode{{
			Secondaries: framework.Secondaries(&jobs),
			Node: workflow.Node[*pageContext]{
				Name: "job", ReadyPostcondition: met(&jobs, ready.Job),
				Reconcile: applying(func(p *page) *batchv1.Job {
					j := &batchv1.Job{ObjectMeta: meta(p), Spec: batchv1.JobSpec{Template: podTemplate(p.Name)}}
					j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
					change(j)
					return j
				}),
			},
		}, after("job")})
		p := newPage(ns, "p")
		kind := "Ready"
		if !follows {
			kind = "Stalled"
		}
		Eventually(condition(p, kind)).Should(HavePrefix(want))
		Expect(hasConfigMap(p)()).To(Equal(follows))
	},
		Entry("that completes lets go on", func(*batchv1.Job) {}, "True: 2 of 2 nodes are as they should be", true),
		Entry("that fails stalls", func(j *batchv1.Job) {
			j.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
			j.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/none": "none"}
		}, "True: job is not ready: has failed: DeadlineExceeded", false),
	)

	It("Gone waits for what finalizers hold up", func() {
		ns := namespace()
		var configMaps framework.Secondary[*corev1.ConfigMap]
		operate(ns, nil, []pageNode{{
			Secondaries: framework.Secondaries(&configMaps),
			Node: workflow.Node[*pageContext]{
				Name: "config", Delete: deleting(&configMaps), DeletePostcondition: ready.Gone[*page](&configMaps),
				Reconcile: applying(func(p *page) *corev1.ConfigMap {
					o := &corev1.ConfigMap{ObjectMeta: meta(p)}
					o.Finalizers = []string{"example.com/held"}
					return o
				}),
			},
		}})
		p := newPage(ns, "p")
		Eventually(condition(p, "Ready")).Should(HavePrefix("True"))
		Expect(admin.Delete(ctx, p)).To(Succeed())
		exists := func() error { return admin.Get(ctx, client.ObjectKeyFromObject(p), &page{}) }
		held := &corev1.ConfigMap{}
		Eventually(func() bool {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), held)).To(Succeed())
			return held.DeletionTimestamp != nil
		}).Should(BeTrue())
		Consistently(exists).Should(Succeed())
		held.Finalizers = nil
		Expect(admin.Update(ctx, held)).To(Succeed())
		Eventually(exists).Should(MatchError(apierrors.IsNotFound, "is gone"))
	})
})
