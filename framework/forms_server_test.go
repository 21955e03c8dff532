package framework_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// counted counts requests that match, and refuses them while they are to be refused.
type counted struct {
	matches func(*http.Request) bool
	refuse  atomic.Bool
	n       atomic.Int32
}

func (m *counted) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if m.matches(request) {
			m.n.Add(1)
			if m.refuse.Load() {
				return answers(http.StatusForbidden)(request)
			}
		}
		return next.RoundTrip(request)
	})
}

var _ = Describe("An object in several forms and versions", func() {
	It("G01 is whole in an unstructured cache though it is written in protobuf, which is answered as JSON for that alone", func() {
		ns, s := namespace(), newStall("configmaps")
		whole := framework.Secondary[*unstructured.Unstructured]{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}
		var typed framework.Secondary[*corev1.ConfigMap]
		for _, secondary := range []framework.SecondarySource{&whole, &typed} {
			both, done := secondary == &whole, make(chan error, 1)
			var mu sync.Mutex // guards accepted
			accepted := ""
			r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary())
				if both && err == nil {
					var shown *unstructured.Unstructured
					if shown, err = whole.Get(c); err == nil {
						live := shown.DeepCopy()
						Expect(admin.Get(ctx, client.ObjectKeyFromObject(shown), live)).To(Succeed())
						live.SetManagedFields(nil)
						Expect(shown).To(Equal(live))
					}
				}
				done <- err
				return pageUpdate{}, err
			}}
			_, stop := operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(secondary)}, func(config *restConfig) {
				config.Wrap(s.wrap)
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(request *http.Request) (*http.Response, error) {
						if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/configmaps/") {
							mu.Lock()
							accepted = request.Header.Get("Accept")
							mu.Unlock()
						}
						return next.RoundTrip(request)
					})
				})
			})
			page := create(newPage(ns, map[bool]string{true: "both", false: "typed"}[both]))
			Eventually(done).Should(Receive(BeNil()))
			mu.Lock()
			Expect(strings.Contains(accepted, "protobuf")).To(Equal(!both), accepted)
			mu.Unlock()
			Expect(admin.Delete(ctx, page)).To(Succeed())
			Expect(stop()).To(Succeed())
		}
	})

	DescribeTable("G01 is written though the cache of another version cannot read it; that shows it once its watch has brought it", func(longer time.Duration) {
		ns, s := namespace(), newStall("horizontalpodautoscalers")
		reads := &counted{matches: func(request *http.Request) bool {
			return request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/autoscaling/v2/") && strings.HasSuffix(request.URL.Path, "/h")
		}}
		reads.refuse.Store(true)
		var found framework.Secondary[*autoscalingv2.HorizontalPodAutoscaler]
		h := &autoscalingv1.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h"},
			Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
				MaxReplicas: 3, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
			},
		}
		runs := make(chan error, 100)
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, h.DeepCopy(), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred(), "it was carried out")
			shown, err := found.GetNamed(c, ns, "h")
			if err == nil && (shown == nil || shown.Spec.MaxReplicas != 3) {
				Fail("an older state is shown")
			}
			runs <- err
			if err != nil {
				time.Sleep(longer)
			}
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&found)}, func(config *restConfig) {
			config.Wrap(s.wrap)
			config.Wrap(reads.wrap)
		})
		create(newPage(ns, "p"))
		Eventually(runs).Should(Receive(MatchError(ContainSubstring("could not be read since"))))
		reads.refuse.Store(false)
		s.release()
		Eventually(runs).Should(Receive(BeNil()), "its watch has brought it")
		settled(op)
		for len(runs) > 0 {
			Expect(<-runs).To(Succeed())
		}
	},
		Entry("after the run", time.Duration(0)),
		Entry("while the run is under way", time.Second),
	)

	It("G02 G03 is gone, or as it was read, for the caches of every version", func() {
		ns, s := namespace(), newStall("horizontalpodautoscalers")
		reads := &counted{matches: func(request *http.Request) bool {
			return request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/autoscaling/v2/") && strings.HasSuffix(request.URL.Path, "/h")
		}}
		first, second := framework.Secondary[*autoscalingv1.HorizontalPodAutoscaler]{Name: "v1"}, framework.Secondary[*autoscalingv2.HorizontalPodAutoscaler]{Name: "v2"}
		h := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h"},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"},
			},
		}
		create(h)
		done := make(chan struct{})
		var once sync.Once
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			once.Do(func() {
				defer close(done)
				defer GinkgoRecover()
				Expect(admin.Patch(ctx, h, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"maxReplicas":4}}`)))).To(Succeed())
				live, err := framework.Live[*autoscalingv1.HorizontalPodAutoscaler](ctx, c, ns, "h")
				Expect(err).NotTo(HaveOccurred())
				Expect(live.Spec.MaxReplicas).To(BeEquivalentTo(4))
				Expect(second.GetNamed(c, ns, "h")).To(HaveField("Spec.MaxReplicas", BeEquivalentTo(4)))
				Expect(first.GetNamed(c, ns, "h")).To(HaveField("Spec.MaxReplicas", BeEquivalentTo(4)))
				before := reads.n.Load()
				_, err = framework.Live[*autoscalingv1.HorizontalPodAutoscaler](ctx, c, ns, "h")
				Expect(err).NotTo(HaveOccurred())
				Expect(framework.Delete(ctx, c, live)).To(Succeed())
				Expect(first.GetNamed(c, ns, "h")).To(BeNil())
				Expect(second.GetNamed(c, ns, "h")).To(BeNil())
				Expect(reads.n.Load()).To(Equal(before), "what a cache knows is not read for it")
			})
			return pageUpdate{}, nil
		}}
		operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&first, &second)}, func(config *restConfig) {
			config.Wrap(s.wrap)
			config.Wrap(reads.wrap)
		})
		create(newPage(ns, "p"))
		Eventually(done).Should(BeClosed())
	})
})
