package framework_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// lists notes what lists of ConfigMaps ask for.
type lists struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []string
}

// RoundTrip notes a list of ConfigMaps.
func (l *lists) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method == http.MethodGet && query.Get("watch") == "" && query.Has("limit") {
		l.mu.Lock()
		l.all = append(l.all, fmt.Sprintf("%s more %t", query.Get("limit"), query.Has("continue")))
		l.mu.Unlock()
	}
	return l.next.RoundTrip(request)
}

func (l *lists) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

var _ = Describe("What a cache keeps", Label("C50"), func() {
	It("lists in pages, pruned and bounded, and fetches what it misses", func() {
		ns := namespace()
		for i := range 7 {
			Expect(admin.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint("c", i)}, Data: map[string]string{"x": fmt.Sprint(i)},
			})).To(Succeed())
		}
		noted := &lists{}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}}, func(c *rest.Config) {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper { noted.next = next; return noted })
		})
		type found struct {
			kept  int
			whole map[string]string
		}
		results := make(chan found, 10)
		r := &pages{}
		r.configMaps.ListLimit, r.configMaps.KeepWhole = 3, 2
		r.configMaps.Map = func(c *corev1.ConfigMap) []types.NamespacedName { return nil }
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			seen := found{whole: map[string]string{}}
			for i := range 7 {
				name := fmt.Sprint("c", i)
				if kept, err := r.configMaps.GetNamed(c, ns, name); err != nil || kept == nil || kept.Data != nil {
					return pageUpdate{}, fmt.Errorf("%s is kept as %v: %w", name, kept, err)
				}
				seen.kept++
				whole, err := r.configMaps.GetWhole(ctx, c, ns, name)
				if err != nil {
					return pageUpdate{}, err
				}
				seen.whole[name] = whole.Data["x"]
			}
			results <- seen
			return pageUpdate{}, nil
		}
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})).To(Succeed())
		run(op)
		Expect(admin.Create(ctx, newPage(ns, "p"))).To(Succeed())
		var seen found
		Eventually(results).Should(Receive(&seen))
		Expect(seen.kept).To(Equal(7))
		Expect(seen.whole).To(Equal(map[string]string{"c0": "0", "c1": "1", "c2": "2", "c3": "3", "c4": "4", "c5": "5", "c6": "6"}))
		Expect(noted.seen()).To(ContainElements("3 more false", "3 more true"))
		for _, cache := range op.Occupancy().Caches {
			Expect(cache.Whole).To(BeNumerically("<=", 2), cache.Cache)
		}
	})

	It("ends the start where the API server ignores a shard selector", func() {
		op := newOperator(framework.OperatorOptions{})
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		Expect(framework.Register(op, r, pageOptions{ShardSelector: halves[0]})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(ContainSubstring("ShardedListAndWatch")))
	})
})

// halves are all UIDs, in two shards.
var halves = []string{
	"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
	"shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
}

var _ = Describe("Shards of the API server", Label("ShardSelectorIT"), Ordered, func() {
	var sharded *testenv.Env
	var there *client.Client

	BeforeAll(func() {
		var err error
		sharded, err = testenv.StartWithFlags(map[string]string{"feature-gates": "ShardedListAndWatch=true"}, testenv.WebPageCRDs())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return sharded.Stop() })
		there, err = client.New(sharded.Config, scheme)
		Expect(err).NotTo(HaveOccurred())
	})

	It("has each page reconciled by one of two instances that own half the UIDs each", func() {
		var mu sync.Mutex
		ran := [2]map[string]int{{}, {}}
		seen := [2]map[string]bool{{}, {}}
		for i, half := range halves {
			op := newOperator(framework.OperatorOptions{Name: fmt.Sprint("half-", i)}, func(c *rest.Config) { *c = *rest.CopyConfig(sharded.Config) })
			secondary := &framework.Secondary[*unstructured.Unstructured]{
				Name: "shards", GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), ShardSelector: half,
				Filter: func(_, new *unstructured.Unstructured) bool {
					mu.Lock()
					defer mu.Unlock()
					if new != nil && new.GetNamespace() == "default" && new.GetName() != "kube-root-ca.crt" {
						seen[i][new.GetName()] = true
					}
					return false
				},
			}
			r := &pages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				mu.Lock()
				ran[i][page.Name]++
				mu.Unlock()
				_, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
				return pageUpdate{}, err
			}
			Expect(framework.Register(op, r, pageOptions{
				Name: fmt.Sprint("half-", i), ShardSelector: half, Secondaries: framework.Secondaries(&r.configMaps, secondary),
			})).To(Succeed())
			run(op)
		}
		names := map[string]int{}
		for i := range 40 {
			name := fmt.Sprintf("page-%02d", i)
			names[name] = 1
			Expect(there.Create(ctx, newPage("default", name))).To(Succeed())
		}
		all := func(parts [2]map[string]bool) []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
				for _, part := range parts {
					for name := range part {
						if !yield(name, true) {
							return
						}
					}
				}
			})))
		}
		Eventually(func() []string { return all(seen) }).Should(HaveLen(40))
		Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(ran[0]) + len(ran[1]) }).Should(Equal(40))
		Consistently(func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			both := maps.Clone(ran[0])
			for name, runs := range ran[1] {
				both[name] += runs
			}
			return both
		}).Should(Equal(names))
		mu.Lock()
		defer mu.Unlock()
		for i := range halves {
			Expect(ran[i]).NotTo(BeEmpty())
			Expect(seen[i]).NotTo(BeEmpty())
			for name := range seen[i] {
				Expect(seen[1-i]).NotTo(HaveKey(name), "the answer to a write of the other shard's is not shown")
			}
		}
	})
})
