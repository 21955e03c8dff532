package framework_test

import (
	"context"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("A write in another version of the kind than the cache's", func() {
	It("G01 G05 is readable at once, and does not trigger", func() {
		ns := namespace()
		var found framework.Secondary[*autoscalingv2.HorizontalPodAutoscaler]
		var runs atomic.Int32
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			for _, most := range []int32{3, 4} {
				_, err := framework.Apply(ctx, c, &autoscalingv1.HorizontalPodAutoscaler{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h"},
					Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
						MaxReplicas: most, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
					},
				}, framework.OwnedByPrimary())
				Expect(err).NotTo(HaveOccurred())
				Expect(found.Get(c)).To(HaveField("Spec.MaxReplicas", most))
			}
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&found)})
		create(newPage(ns, "p"))
		Eventually(runs.Load).Should(BeEquivalentTo(1))
		settled(op)
		Consistently(runs.Load).Should(BeEquivalentTo(1))
	})
})
