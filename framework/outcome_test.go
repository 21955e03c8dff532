package framework_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// refuse answers the first n writes of a kind in the server's place, or for n < 0 all of them.
func refuse(n int32, method, resource string, status metav1.Status, sent *atomic.Int32) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != method || !strings.HasSuffix(request.URL.Path, "/"+resource) {
				return next.RoundTrip(request)
			}
			if nth := sent.Add(1); n >= 0 && nth > n {
				return next.RoundTrip(request)
			}
			status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			status.Status = metav1.StatusFailure
			body, err := json.Marshal(status)
			return &http.Response{
				StatusCode: int(status.Code), Request: request, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
				Header: http.Header{"Content-Type": []string{"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			}, err
		})
	}
}

var _ = Describe("The fate of a write", func() {
	var (
		ns   string
		sent atomic.Int32
	)
	BeforeEach(func() { ns = namespace(); sent.Store(0) })
	creating := func() *pages {
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if m, err := r.configMaps.Get(c); m != nil || err != nil {
				return pageUpdate{}, err
			}
			_, err := framework.Create(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		return r
	}

	It("is shown at once where the server failed, as at an admission webhook, and the next run may do otherwise", func() {
		r := creating()
		op, _ := operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) {
			config.Wrap(refuse(-1, http.MethodPost, "configmaps", metav1.Status{
				Code: 500, Reason: metav1.StatusReasonInternalError, Message: "failed calling webhook",
			}, &sent))
		})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }, "2s").Should(Equal(1))
		Expect(records(op, page)[0].Err).To(ContainSubstring("failed calling webhook"))
		Expect(sent.Load()).To(BeEquivalentTo(1))
	})

	It("is found out by asking again where the server was overloaded, by a proxy's word", func() {
		r := creating()
		op, _ := operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) {
			config.Wrap(refuse(3, http.MethodPost, "configmaps", metav1.Status{Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "no backend"}, &sent))
		})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(configMapOf(page, "")).Name }).Should(Equal("p"))
		expectRuns(op, page, 1)
		Expect(sent.Load()).To(BeEquivalentTo(4))
	})

	It("G16 leaves nothing when a run ends its goroutine", func() {
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if _, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
			runtime.Goexit()
			return pageUpdate{}, nil
		}
		op, _ := operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(configMapOf(page, "")).Name }).Should(Equal("p"))
		settled(op)
	})
})
