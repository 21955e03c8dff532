package interlocktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// livesAtATime bounds a round, which has a namespace, operators and a history of its own.
const livesAtATime = 500

// observer reads both etcds, past the API server.
type observer struct {
	databases, apps *testenv.Truth
	history         *history
	order           order
}

func newObserver(ns string) *observer {
	GinkgoHelper()
	o := &observer{history: newHistory(ns)}
	var err error
	o.databases, err = env.Truth(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(o.databases.Stop)
	o.apps, err = env.SecondTruth(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(o.apps.Stop)
	return o
}

// look takes in all that was written before the call. Claims that implementations are on come
// along: apps are asked later.
func (o *observer) look(ctx context.Context) error {
	var now cut
	var err error
	if now.databases, err = o.databases.Now(ctx); err != nil {
		return err
	}
	if now.apps, err = o.apps.Now(ctx); err != nil {
		return err
	}
	o.order.cuts = append(o.order.cuts, now)
	if err := errors.Join(o.databases.Wait(ctx, now.databases), o.apps.Wait(ctx, now.apps)); err != nil {
		return err
	}
	return errors.Join(o.history.take(databases, o.databases.Events(), now.databases), o.history.take(apps, o.apps.Events(), now.apps))
}

// watch looks and judges until told to end, or there is something that must not be.
func (o *observer) watch(ctx context.Context, end <-chan struct{}) (problems []string, err error) {
	for looks := 1; ; looks++ {
		select {
		case <-end:
			return nil, nil
		case <-time.After(100 * time.Millisecond): // often, as what comes between two looks is in doubt
		}
		if err := o.look(ctx); err != nil {
			return nil, err
		}
		if looks%10 == 0 {
			if problems := verdict(o.history, &o.order); len(problems) > 0 {
				return problems, nil
			}
		}
	}
}

// round is one load on fresh operators.
type round struct {
	seed      uint64
	load      load
	operators []*operator // guard and gate
	observer  *observer

	violations int
}

func newRound(seed uint64, lives int) *round {
	GinkgoHelper()
	ns, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "interlock-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	r := &round{seed: seed, load: load{ns: ns.Name, seed: seed, lives: lives}, observer: newObserver(ns.Name)}
	for _, role := range []string{guardRole, gateRole} {
		o := newOperator(role, ns.Name, seed)
		DeferCleanup(o.kill)
		Expect(o.start()).To(Succeed())
		r.operators = append(r.operators, o)
	}
	return r
}

// play has all of them act until everything was deleted, or something is there that must not be.
func (r *round) play() {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var acting, watching sync.WaitGroup
	ended, over := make(chan struct{}), make(chan struct{})
	errs := make([]error, 2+len(r.operators))
	acting.Go(func() {
		errs[0] = r.load.run(ctx)
		close(ended)
	})
	for i, o := range r.operators {
		acting.Go(func() { errs[2+i] = o.beKilledAgainAndAgain(ended) })
	}
	var problems []string
	watching.Go(func() {
		problems, errs[1] = r.observer.watch(ctx, over)
		cancel()
	})
	acting.Wait()
	close(over)
	watching.Wait()
	r.expectNone(problems)
	Expect(errors.Join(errs...)).To(Succeed())
}

// expectNone fails with what there is to know of the problems.
func (r *round) expectNone(problems []string) {
	GinkgoHelper()
	if len(problems) == 0 {
		return
	}
	found := len(problems)
	text := []string{fmt.Sprintf("INTERLOCK_SEED=%d: %d problems", r.seed, found)}
	for _, p := range problems[:min(3, found)] {
		text = append(append(text, p), r.observer.history.tell(p)...)
		for _, o := range r.operators {
			text = append(text, o.log.about(r.observer.history.namesIn(p)...)...)
		}
	}
	r.violations = found
	Fail(strings.Join(text, "\n  "))
}

// drain waits until nothing is left.
func (r *round) drain() {
	GinkgoHelper()
	started := time.Now()
	left := func() []string {
		if err := r.observer.look(ctx); err != nil {
			return []string{err.Error()}
		}
		var keys []string
		for key := range r.observer.history.live {
			keys = append(keys, key)
		}
		return keys
	}
	Eventually(left).WithTimeout(calm).WithPolling(100*time.Millisecond).Should(BeEmpty(), func() string {
		return fmt.Sprintf("INTERLOCK_SEED=%d: G10: what nobody wants any more is left after %v\n  %s", r.seed, calm,
			strings.Join(append(r.operators[0].log.about("fail", "error", "kept"), r.operators[1].log.about("fail", "error")...), "\n  "))
	})
	AddReportEntry("drained", fmt.Sprint("in ", time.Since(started).Round(time.Millisecond)))
	r.expectNone(verdict(r.observer.history, &r.observer.order))
	for _, o := range r.operators {
		Expect(o.stop()).To(Succeed(), "the %s does not stop well", o.role)
	}
}

var _ = Describe("Apps and databases in two etcds, whose operators are killed and see late", Ordered, func() {
	first, all, checked, violations := seed(), lifecycles(), 0, 0
	for begun := 0; begun < all; begun += livesAtATime {
		lives, seed := min(livesAtATime, all-begun), first+uint64(begun)
		It(fmt.Sprintf("G10 no database vanishes under an implementation, none is on one in deletion, and all drains: %d lives of seed %d", lives, seed), func() {
			r := newRound(seed, lives)
			defer func() { violations += r.violations }()
			r.play()
			r.drain()
			r.expectThatTheyMet()
			checked += lives
		})
	}
	AfterAll(func() {
		if os.Getenv("EVENKEEL_FIGURES") != "" {
			fmt.Printf("figure interlock_lifecycles_checked %d\nfigure interlock_violations %d\n", checked, violations)
		}
	})
})

// expectThatTheyMet checks that there was something to be shown.
func (r *round) expectThatTheyMet() {
	GinkgoHelper()
	n := count(r.observer.history, &r.observer.order)
	guard, gate := r.operators[0].kills, r.operators[1].kills
	AddReportEntry("round", fmt.Sprintf("%+v, kills of guard and gate %d %d", n, guard, gate))
	Expect([]int{n.apps, n.databases}).To(HaveEach(r.load.lives), "apps and databases that came and went")
	for what, n := range map[string]int{
		"implementations": n.implementations, "claims that came too late": n.late, "databases that were kept": n.kept,
		"databases of a name that had another": n.anew, "kills of the guard": 5 * guard, "kills of the gate": 5 * gate,
	} {
		Expect(n).To(BeNumerically(">=", r.load.lives/12), what)
	}
}
