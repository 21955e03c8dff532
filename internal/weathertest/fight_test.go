package weathertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

// claimant has for every page a ConfigMap that only its Cleanup takes away, in the last of several
// calls: of which one fails, and one has not finished. So what it takes away tells when a Cleanup
// succeeded.
type claimant struct {
	name string
	maps framework.Secondary[*corev1.ConfigMap]

	mu    sync.Mutex // guards below
	calls map[types.UID]int
}

var errCleanup = errors.New("not yet")

func newClaimant(name string) *claimant {
	c := &claimant{name: name, calls: map[types.UID]int{}}
	c.maps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
		if page := m.Labels[name]; page != "" {
			return []types.NamespacedName{{Namespace: m.Namespace, Name: page}}
		}
		return nil
	}
	return c
}

func (r *claimant) finalizer() string { return "samples.evenkeel.dev/" + r.name + "-finalizer" }

func (r *claimant) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	claim := newMap(p.Namespace, claimOf(r.name, p.UID), nil)
	claim.Labels = map[string]string{r.name: p.Name}
	_, err := framework.Apply(ctx, c, claim)
	return pageUpdate{}, err
}

func (r *claimant) Cleanup(ctx context.Context, p *page, c *pageContext) (framework.DeleteControl, error) {
	switch r.called(p.UID) {
	case 1:
		return framework.RemoveFinalizer(), errCleanup
	case 2:
		return framework.KeepFinalizerFor(20 * time.Millisecond), nil
	}
	claim, err := r.maps.GetNamed(c, p.Namespace, claimOf(r.name, p.UID))
	if err == nil && claim != nil {
		err = framework.Delete(ctx, c, claim)
	}
	return framework.RemoveFinalizer(), err
}

func (r *claimant) called(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[uid]++
	return r.calls[uid]
}

// third is a party of its own, which puts finalizers on and takes them off, its own alone, as fast
// as it can.
type third struct {
	mu sync.Mutex // guards below
	// commits are the revisions that its writes made, and freed the pages of which it took the last
	// finalizer off: the server answers that with the version before.
	commits map[int64]bool
	freed   map[types.UID]bool
}

const thirdFinalizers = "example.com/third-"

// fight changes one page until the time is over, and lets it go then.
func (f *third) fight(ns, name string, random *rand.Rand, end time.Time) {
	for time.Now().Before(end) {
		f.change(ns, name, func(p *page) bool {
			mine := thirdFinalizers + fmt.Sprint(random.IntN(3))
			at := slices.Index(p.Finalizers, mine)
			switch {
			case at >= 0:
				p.Finalizers = slices.Delete(p.Finalizers, at, at+1)
			case p.DeletionTimestamp == nil: // a finalizer that comes later is refused
				p.Finalizers = slices.Insert(p.Finalizers, random.IntN(len(p.Finalizers)+1), mine)
			default:
				p.Labels = map[string]string{"third": fmt.Sprint(random.IntN(1_000_000))}
			}
			return true
		})
	}
	f.change(ns, name, func(p *page) bool {
		before := len(p.Finalizers)
		p.Finalizers = slices.DeleteFunc(p.Finalizers, func(s string) bool { return strings.HasPrefix(s, thirdFinalizers) })
		return len(p.Finalizers) < before
	})
}

func (f *third) change(ns, name string, change func(*page) bool) {
	after, changed := changePage(ns, name, change)
	if !changed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if after.DeletionTimestamp != nil && len(after.Finalizers) == 0 {
		f.freed[after.UID] = true
	} else {
		f.commits[versionOf(after)] = true
	}
}

// did tells whether it made a commit.
func (f *third) did(c commit) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.commits[c.revision] || c.deleted && f.freed[c.uid]
}

var _ = Describe("A fight over finalizers", func() {
	const pages, rounds, fighting = 8, 3, 3 * time.Second

	It("G09 G14 between two operators and a third party ends with every page gone, cleaned up by both, and no finalizer taken off by another", func() {
		ns := namespace()
		book, foreign := begin(ns), &third{commits: map[int64]bool{}, freed: map[types.UID]bool{}}
		var operators []*framework.Operator
		var seen []*requests
		claimants := []*claimant{newClaimant("left"), newClaimant("right")}
		for _, c := range claimants {
			// What is shown late makes the patches of finalizers start from old versions.
			proxy := behindProxy(faultproxy.Lag("late", 60*time.Millisecond, "webpages"))
			r := &requests{}
			op, _ := operate(r.through(proxy.Config()), ns, c, pageOptions{Name: c.name, Finalizer: c.finalizer(), Secondaries: framework.Secondaries(&c.maps), Concurrency: 16, Retry: hurried})
			operators, seen = append(operators, op), append(seen, r)
		}
		for round := range rounds { // the names come again
			By(fmt.Sprintf("round %d", round))
			eachOf(ns, pages, func(p *page) error { return admin.Create(ctx, p) })
			end := time.Now().Add(fighting)
			var fighters sync.WaitGroup
			for i := range pages {
				random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(round*pages+i)))
				fighters.Go(func() { foreign.fight(ns, fmt.Sprintf("p%d", i), random, end) })
			}
			Eventually(func() []string { return unclaimed(ns, pages, claimants) }).Should(BeEmpty())
			eachOf(ns, pages, func(p *page) error { return admin.Delete(ctx, p) })
			fighters.Wait()
			ends(ns, operators...)
		}
		foreign.judge(book.commits(), pages*rounds, claimants)
		for _, r := range seen {
			Expect(r.sum().refused[409]).To(BeNumerically(">", 0), "there was no fight")
		}
	})
})

// unclaimed lists the pages that lack a finalizer.
func unclaimed(ns string, pages int, claimants []*claimant) (lacking []string) {
	for i := range pages {
		p := pageNow(ns, fmt.Sprintf("p%d", i))
		for _, c := range claimants {
			if !slices.Contains(p.Finalizers, c.finalizer()) {
				lacking = append(lacking, p.Name+" "+c.name)
			}
		}
	}
	return lacking
}

// judge goes through every step of every page: who took which finalizer off, and when.
func (f *third) judge(commits []commit, pages int, claimants []*claimant) {
	GinkgoHelper()
	claims, before, gone := claimsIn(commits), map[types.UID]commit{}, 0
	for _, at := range commits {
		if at.page == nil {
			continue
		}
		old, known := before[at.uid]
		if at.deleted { // what is stored last has the last finalizer still, in the state before
			gone++
		}
		if before[at.uid] = at; !known {
			continue
		}
		for _, lost := range missing(old.finalizers(), at.finalizers()) {
			what := fmt.Sprintf("%s of %s (%s) at %d", lost, at.name, at.uid, at.revision)
			Expect(f.did(at)).To(Equal(strings.HasPrefix(lost, thirdFinalizers)), "who took off "+what)
			for _, c := range claimants {
				if claim := claims[claimOf(c.name, at.uid)]; lost == c.finalizer() {
					Expect(claim.gone).To(And(BeNumerically(">", 0), BeNumerically("<", at.revision)), "it was cleaned up before "+what)
				}
			}
		}
		for _, came := range missing(at.finalizers(), old.finalizers()) {
			Expect(at.page.DeletionTimestamp).To(BeNil(), came+" came after the deletion")
			for _, c := range claimants {
				if came == c.finalizer() {
					Expect(claims[claimOf(c.name, at.uid)].made).To(BeNumerically(">", at.revision), came+" was there before what it protects")
				}
			}
		}
	}
	Expect(gone).To(Equal(pages), "pages that went")
}
