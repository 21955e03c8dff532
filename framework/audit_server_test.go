package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// writesAll is a reconciler that writes in each way, and is refused at times.
func writesAll() *cleaningPages {
	r := keeper()
	applies := r.reconcile
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		other := configMapOf(p, p.Spec.HTML)
		other.Name += "-other"
		found, err := r.configMaps.GetNamed(c, other.Namespace, other.Name)
		switch number, _ := strconv.Atoi(p.Name[1:]); {
		case err != nil:
		case number%5 == 0 && found == nil:
			_, err = framework.Create(ctx, c, other)
		case number%5 == 0 && p.Spec.HTML == "two":
			_, err = framework.MergePatch(ctx, c, found, []byte(`{"data":{"data":"patched"}}`))
		case number%5 == 0 && p.Spec.HTML == "three":
			changed := found.DeepCopy()
			changed.Data["data"] = "updated"
			_, err = framework.Update(ctx, c, changed)
		case number%5 == 0 && p.Spec.HTML == "four":
			err = framework.Delete(ctx, c, found)
		case number%5 == 1: // refused: 409
			other.Name = "taken"
			if _, err = framework.Create(ctx, c, other); apierrors.IsAlreadyExists(err) {
				err = nil
			}
		case number%5 == 2: // refused: 422
			other.Name = "not a name"
			if _, err = framework.Apply(ctx, c, other); apierrors.IsInvalid(err) {
				err = nil
			}
		}
		if err != nil {
			return pageUpdate{}, err
		}
		return applies(ctx, p, c)
	}
	return r
}

var _ = Describe("G18 What metrics and pages count", func() {
	It("is what the audit log of the API server has", func() {
		flags, log, err := testenv.AuditLog(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		audited, err := testenv.StartWithFlags(flags, testenv.WebPageCRDs())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return audited.Stop() })
		there, err := client.New(audited.Config, scheme)
		Expect(err).NotTo(HaveOccurred())
		Expect(there.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken"}})).To(Succeed())

		metrics := prometheus.New()
		pages, err := why.New(why.Options{PerPrimary: 1000})
		Expect(err).NotTo(HaveOccurred())
		op := newOperator(framework.OperatorOptions{Name: "audited", Observers: []observe.Observer{metrics, pages}}, func(c *rest.Config) {
			*c = *rest.CopyConfig(audited.Config)
		})
		metrics.Of(op)
		pages.Of(op)
		r := writesAll()
		Expect(framework.Register(op, r, withConfigMaps(&r.pages, pageOptions{Retry: slow}))).To(Succeed())
		run(op)

		const primaries = 50
		name := func(i int) *Page { return newPage("default", fmt.Sprint("p", i)) }
		handled := func(html string, n int) func(Gomega) {
			return func(g Gomega) {
				done := 0
				for i := range n {
					p := name(i)
					g.Expect(there.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
					if p.Spec.HTML == html && p.Status.ObservedGeneration == p.Generation {
						done++
					}
				}
				g.Expect(done).To(Equal(n))
			}
		}
		for i := range primaries {
			p := name(i)
			p.Spec.HTML = "one"
			Expect(there.Create(ctx, p)).To(Succeed())
		}
		Eventually(handled("one", primaries)).Should(Succeed())
		for _, html := range []string{"two", "three", "four"} {
			for i := range primaries {
				Expect(there.Patch(ctx, name(i), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"html":%q}}`, html)))).To(Succeed())
			}
			Eventually(handled(html, primaries)).Should(Succeed())
		}
		for i := 30; i < primaries; i++ {
			Expect(there.Delete(ctx, name(i))).To(Succeed())
		}
		Eventually(func(g Gomega) {
			for i := 30; i < primaries; i++ {
				g.Expect(apierrors.IsNotFound(there.Get(ctx, client.ObjectKeyFromObject(name(i)), name(i)))).To(BeTrue())
			}
		}).Should(Succeed())

		// The log has a request soon after its answer, and the operator may still send events: this waits
		// until both agree, and until nothing more comes.
		var before int
		Eventually(func(g Gomega) {
			all, err := testenv.AuditedRequests(log, "audited ")
			g.Expect(err).NotTo(HaveOccurred())
			counted, scraped := auditCounts(all), scrapedCounts(g, metrics)
			shown := shownWrites(g, pages, primaries)
			defer func() { before = len(all) }()
			g.Expect(scraped.requests).To(Equal(counted.requests))
			g.Expect(scraped.writes).To(Equal(counted.writes))
			g.Expect(shown).To(Equal(counted.texts))
			g.Expect(len(all)).To(Equal(before), "more came")
		}).WithPolling(200 * time.Millisecond).Should(Succeed())

		all, err := testenv.AuditedRequests(log, "audited ")
		Expect(err).NotTo(HaveOccurred())
		counted := auditCounts(all)
		Expect(slices.Collect(maps.Keys(counted.writes))).To(ConsistOf("apply", "create", "delete", "patch", "update"))
		Expect(counted.requests).To(And(HaveKey("POST 409"), HaveKey("PATCH 422"), HaveKey("PATCH 201")))
		AddReportEntry("requests", counted.requests)
	})
})

// tally is requests by method and code, write requests of runs by verb, and these one by one.
type tally struct{ requests, writes, texts map[string]int }

// auditCounts counts what an operator has sent. All of it is among the requests: lists, watches and
// discovery, too. Writes are what runs send: Kubernetes events are not among them, and there is no
// leader election. The audit log does not have the content type of a patch. Those with force are
// applies.
func auditCounts(all []testenv.Audited) tally {
	methods := map[string]string{"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
	kinds := map[string]string{"configmaps": "ConfigMap", "webpages": "WebPage"}
	c := tally{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, r := range all {
		c.requests[fmt.Sprint(methods[r.Verb], " ", r.Code)]++
		if methods[r.Verb] == "GET" || r.Resource == "events" {
			continue
		}
		verb := r.Verb
		if r.Query.Has("force") {
			verb = "apply"
		}
		c.writes[verb]++
		if r.Subresource != "" {
			verb += " " + r.Subresource + " of"
		}
		c.texts[fmt.Sprintf("%s %s %s/%s", verb, kinds[r.Resource], r.Namespace, r.Name)]++
	}
	return c
}

var (
	ofRequests = regexp.MustCompile(`(?m)^rest_client_requests_total\{code="([^"]*)",host="[^"]*",method="([^"]*)"\} (\d+)$`)
	ofWrites   = regexp.MustCompile(`(?m)^evenkeel_writes_total\{controller="webpage",proof="[^"]*",verb="([^"]*)"\} (\d+)$`)
)

// scrapedCounts are those that metrics have.
func scrapedCounts(g Gomega, metrics *prometheus.Metrics) tally {
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	c := tally{requests: map[string]int{}, writes: map[string]int{}}
	for _, found := range ofRequests.FindAllStringSubmatch(w.Body.String(), -1) {
		n, err := strconv.Atoi(found[3])
		g.Expect(err).NotTo(HaveOccurred())
		c.requests[found[2]+" "+found[1]] += n
	}
	for _, found := range ofWrites.FindAllStringSubmatch(w.Body.String(), -1) {
		n, err := strconv.Atoi(found[2])
		g.Expect(err).NotTo(HaveOccurred())
		c.writes[found[1]] += n
	}
	return c
}

// shownWrites are the writes that the pages of the primaries show.
func shownWrites(g Gomega, pages *why.Pages, primaries int) map[string]int {
	all := map[string]int{}
	for i := range primaries {
		w := httptest.NewRecorder()
		pages.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprint(why.Root, "webpage/default/p", i, "?format=json"), nil))
		var shown why.OfPrimary
		g.Expect(json.Unmarshal(w.Body.Bytes(), &shown)).To(Succeed())
		for _, run := range shown.Runs {
			for _, request := range run.Requests {
				all[request.Text]++
			}
		}
	}
	return all
}
