package framework_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// handover is the time in which another instance leads after the holder has released the lease: it
// asks every 2 to 4.4 s, as client-go adds up to 1.2 of DefaultRetryPeriod. It is less than the
// lease, which lasts for 15 s.
const handover = 5 * time.Second

func TestG06OneInstanceLeadsAndHandsOverWhenItStops(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		b := r.start("b", copies())
		r.lead("a", a, b)
		r.create(newPage("default", "p"))
		r.pass(time.Minute)
		r.lead("a", a, b)
		if n := len(b.Records("webpage")); n != 0 {
			r.Errorf("%d runs while standing by", n)
		}
		_, err := framework.Apply(r.Context(), b.Writer(""), configMapOf(newPage("default", "outside"), "x"))
		if !errors.Is(err, framework.ErrStandby) {
			r.Errorf("a write outside of runs while standing by: %v", err)
		}
		noError(r.T, a.stop())
		r.pass(handover)
		r.lead("b", b)
		r.touch("p", "new")
		r.pass(time.Second)
		_, err = framework.Apply(r.Context(), b.Writer(""), configMapOf(newPage("default", "outside"), "x"))
		noError(r.T, err)
		if by := r.wrote("p"); by != "a b" {
			r.Errorf("wrote: %s", by)
		}
		noError(r.T, b.stop())
		r.onlyHoldersWrote()
	})
}

func TestG06WhoLosesTheLeaseStandsByAndLeadsAgain(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a, b := r.start("a", copies()), r.start("b", copies())
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		lost := time.Now()
		r.pass(10 * time.Second)
		if a.Leading() || b.Leading() {
			r.Errorf("a leads: %v, b leads: %v, between renewal deadline and the end of the lease", a.Leading(), b.Leading())
		}
		if a.Ready() == nil {
			r.Error("ready though the lease cannot be had")
		}
		_, err := framework.Apply(r.Context(), a.Writer(""), configMapOf(newPage("default", "p"), "late"))
		if !errors.Is(err, framework.ErrStandby) {
			r.Errorf("a write after the deadline: %v", err)
		}
		for !b.Leading() {
			r.pass(time.Second)
		}
		if waited := time.Since(lost); waited < 13*time.Second || waited > 20*time.Second {
			r.Errorf("b leads after %v", waited)
		}
		r.disturb(nil)
		r.touch("p", "by b")
		r.pass(time.Minute)
		r.lead("b", a, b)
		noError(r.T, b.stop())
		r.pass(handover)
		r.lead("a", a)
		r.touch("p", "by a")
		r.pass(time.Second)
		if by := r.wrote("p"); by != "a b a" {
			r.Errorf("wrote: %s", by)
		}
		noError(r.T, a.stop())
		r.onlyHoldersWrote()
	})
}

func TestG06ARunInFlightIsCutOffWithTheLeaseAndComesAgain(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		var cut, late error
		var ended time.Time
		runs := 0
		a := r.start("a", &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if runs++; runs == 1 {
				<-ctx.Done()
				cut, ended = context.Cause(ctx), time.Now()
				_, late = framework.Apply(context.WithoutCancel(ctx), c, configMapOf(page, "late"))
				return pageUpdate{}, late
			}
			if retry := c.Retry(); retry.Attempt != 0 {
				r.Errorf("the run that was cut off counts as attempt %d", retry.Attempt)
			}
			_, err := framework.Apply(ctx, c, configMapOf(page, "again"))
			return pageUpdate{}, err
		}})
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		lost := time.Now()
		r.pass(12 * time.Second)
		if took := ended.Sub(lost); took > 10*time.Second {
			r.Errorf("cut off after %v, by the elector and not by the clock", took)
		}
		if cut == nil || !errors.Is(late, framework.ErrStandby) {
			r.Fatalf("cut off by %v; its write: %v", cut, late)
		}
		r.disturb(nil)
		r.pass(10 * time.Second)
		r.lead("a", a)
		if runs != 2 {
			r.Errorf("%d runs", runs)
		}
		noError(r.T, a.stop())
		if wrote := r.onlyHoldersWrote(); wrote["a"] != 1 {
			r.Errorf("writes: %v", wrote)
		}
	})
}

// A run of an earlier term must not write in a later one: others have led in between.
func TestG06ARunOfAnEarlierTermCannotWrite(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		goOn, wrote := make(chan struct{}), make(chan error, 1)
		runs := 0
		a := r.start("a", &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if runs++; runs == 1 {
				<-goOn // ignores its cancellation
				ctx := context.WithoutCancel(ctx)
				_, err := framework.Apply(ctx, c, configMapOf(page, "late"))
				wrote <- err
				_, err = framework.Create(ctx, c, configMapOf(page, "late"))
				wrote <- err
				gone := configMapOf(page, "late")
				gone.UID = "known"
				wrote <- framework.Delete(ctx, c, gone)
			}
			return pageUpdate{}, nil
		}})
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		r.pass(25 * time.Second)
		r.disturb(nil)
		r.pass(20 * time.Second)
		r.lead("a", a)
		if runs != 1 {
			r.Errorf("%d runs of a primary whose first has not ended", runs)
		}
		close(goOn)
		for _, verb := range []string{"apply", "create", "delete"} {
			if err := <-wrote; !errors.Is(err, framework.ErrStandby) {
				r.Errorf("%s in a run of an earlier term: %v", verb, err)
			}
		}
		r.pass(time.Second)
		if runs != 2 {
			r.Errorf("%d runs after the first one's end", runs)
		}
		noError(r.T, a.stop())
	})
}

// What became of a write is found out in the next term without repeating it: others may have undone
// it since.
func TestG06WritesOfUnknownFateAreNotRepeatedInALaterTerm(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		runs := 0
		a := r.start("a", &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if runs++; runs > 1 {
				return pageUpdate{}, nil
			}
			r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
				lost := unreachable("a")(instance, request)
				if instance == "a" && request.Resource == "configmaps" {
					return apimodel.Fault{Lose: true}
				}
				return lost
			})
			_, err := framework.Create(ctx, c, configMapOf(page, "a's"))
			return pageUpdate{}, err
		}})
		b := r.start("b", &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			found, err := framework.Live[*corev1.ConfigMap](ctx, c, page.Namespace, page.Name)
			if err != nil {
				return pageUpdate{}, client.IgnoreNotFound(err)
			}
			return pageUpdate{}, framework.Delete(ctx, c, found)
		}})
		r.create(newPage("default", "p"))
		r.pass(30 * time.Second)
		r.lead("b", b)
		r.disturb(nil)
		noError(r.T, b.stop())
		r.pass(10 * time.Second)
		r.lead("a", a)
		if left := framework.Unresolved(a.Operator); left > 0 || runs < 2 {
			r.Errorf("%d unresolved writes after %d runs", left, runs)
		}
		if found := r.model.Objects("configmaps"); len(found) > 0 {
			r.Errorf("created anew by %s", r.wrote("p"))
		}
		noError(r.T, a.stop())
	})
}

// After a pause of the process timers are late; what counts is the clock.
func TestG06TheDeadlineHoldsThoughItsTimerIsLate(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		a := r.start("a", copies())
		lost := time.Now() // it was renewed last just before
		var latest time.Duration
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if request.Resource == "configmaps" && request.Verb != "get" {
				latest = time.Since(lost)
			}
			return unreachable("a")(instance, request)
		})
		framework.StopTimerOfTerm(a.Operator)
		r.pass(5 * time.Second)
		write := func() error {
			_, err := framework.Apply(r.Context(), a.Writer(""), configMapOf(newPage("default", "p"), "x"))
			return err
		}
		repeated := make(chan error)
		go func() { repeated <- write() }()
		r.pass(5*time.Second + time.Millisecond)
		// The elector has not noticed yet, and nobody has asked whether the lease is held.
		if _, err := framework.Create(r.Context(), a.Writer(""), configMapOf(newPage("default", "p"), "x")); !errors.Is(err, framework.ErrStandby) {
			r.Errorf("a create begun after the deadline: %v", err)
		}
		r.pass(time.Second)
		if err := write(); !errors.Is(err, framework.ErrStandby) {
			r.Errorf("a write begun after the deadline: %v", err)
		}
		if err := <-repeated; err == nil || latest < 5*time.Second || latest > 10*time.Second {
			r.Errorf("a write begun before the deadline: %v, last sent after %v", err, latest)
		}
		r.disturb(nil)
		r.pass(time.Minute)
		r.lead("a", a)
		noError(r.T, a.stop())
	})
}

// The watches of who takes over may be behind what the leader before wrote last.
func TestG01WhoTakesOverReadsWhatTheLeaderBeforeWrote(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		for _, name := range []string{"changed", "deleted"} {
			r.create(configMapOf(newPage("default", name), "old"))
		}
		seen := make(chan string, 10)
		instance := func(name string, reconcile func(context.Context, *pageContext, func(string) *corev1.ConfigMap) error) *replica {
			pages := &pages{}
			pages.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
				return pageUpdate{}, reconcile(ctx, c, func(name string) *corev1.ConfigMap {
					found, err := pages.configMaps.GetNamed(c, "default", name)
					noError(r.T, err)
					return found
				})
			}
			return r.startWith(name, pages, pageOptions{Secondaries: framework.Secondaries(&pages.configMaps)})
		}
		a := instance("a", func(ctx context.Context, c *pageContext, get func(string) *corev1.ConfigMap) error {
			_, err := framework.Apply(ctx, c, configMapOf(newPage("default", "created"), "new"))
			noError(r.T, err)
			_, err = framework.Apply(ctx, c, configMapOf(newPage("default", "changed"), "new"))
			noError(r.T, err)
			return framework.Delete(ctx, c, get("deleted"))
		})
		b := instance("b", func(_ context.Context, _ *pageContext, get func(string) *corev1.ConfigMap) error {
			for _, name := range []string{"created", "changed", "deleted"} {
				if found := get(name); found != nil {
					seen <- name + " " + found.Data["data"]
				}
			}
			return nil
		})
		r.model.Lag("configmaps", time.Hour)
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		noError(r.T, a.stop())
		r.pass(5 * time.Second)
		r.lead("b", b)
		noError(r.T, b.stop())
		close(seen)
		var all []string
		for one := range seen {
			all = append(all, one)
		}
		if got := strings.Join(all, ", "); got != "created new, changed new" {
			r.Errorf("the first run of b saw: %s", got)
		}
	})
}

// TestG01WhoTakesOverCatchesUpWithMany: though some reads are lost, which keeps nobody from what
// the others brought, and without a read of each where there are many.
func TestG01WhoTakesOverCatchesUpWithMany(t *testing.T) {
	for name, c := range map[string]struct {
		many  int
		takes time.Duration  // a read
		loses func(int) bool // the first read of one
	}{
		"and some reads are lost": {many: 32, takes: 1500 * time.Millisecond, loses: func(i int) bool { return i%2 == 1 }},
		"and reads take long":     {many: 200, takes: 5 * time.Second, loses: func(int) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) { takeOverWithMany(t, c.many, c.takes, c.loses) })
	}
}

func takeOverWithMany(t *testing.T, many int, takes time.Duration, loses func(int) bool) {
	name := func(i int) string { return fmt.Sprint("m", i) }
	withReplicas(t, func(r *replicas) {
		a := &pages{}
		a.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			for i := range many {
				_, err := framework.Apply(ctx, c, configMapOf(newPage("default", name(i)), "new"))
				noError(r.T, err)
			}
			return pageUpdate{}, nil
		}
		lacked := []string{"it had no run"}
		b := &pages{}
		b.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			lacked = nil
			for i := range many {
				if found, err := b.configMaps.GetNamed(c, "default", name(i)); found == nil {
					lacked = append(lacked, fmt.Sprint(name(i), err))
				}
			}
			return pageUpdate{}, nil
		}
		first := r.startWith("a", a, pageOptions{Secondaries: framework.Secondaries(&a.configMaps)})
		second := r.startWith("b", b, pageOptions{Secondaries: framework.Secondaries(&b.configMaps)})
		r.model.Lag("configmaps", time.Hour)
		r.create(newPage("default", "p"))
		r.pass(10 * time.Second)
		var mu sync.Mutex
		lost := map[string]bool{}
		r.disturb(func(instance string, request apimodel.Request) apimodel.Fault {
			if instance != "b" || request.Resource != "configmaps" || request.Verb != "get" {
				return apimodel.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			fault := apimodel.Fault{Delay: takes}
			var i int
			if _, err := fmt.Sscanf(request.Name, "m%d", &i); err == nil && loses(i) && !lost[request.Name] {
				lost[request.Name], fault.Lose = true, true
			}
			return fault
		})
		noError(r.T, first.stop())
		r.pass(30 * time.Second)
		r.lead("b", second)
		noError(r.T, second.stop())
		for i := range many {
			if loses(i) && !lost[name(i)] {
				r.Errorf("the read of %s was not lost", name(i))
			}
		}
		if len(lacked) > 0 {
			r.Errorf("the first run of b lacked %d: %v", len(lacked), lacked)
		}
	})
}

func TestG19TheLeaseIsRenewedThroughTheGracePeriodAndReleasedAfterTheLastWrite(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		slow := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			time.Sleep(time.Minute) // the work of four leases
			_, err := framework.Apply(ctx, c, configMapOf(page, "last"))
			return pageUpdate{}, err
		}}
		a := r.start("a", slow, func(o *framework.OperatorOptions) { o.Grace = 2 * time.Minute })
		b := r.start("b", copies())
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		noError(r.T, a.stop())
		r.pass(5 * time.Second)
		r.lead("b", b)
		noError(r.T, b.stop())
		if by := r.wrote("p"); by != "a b" {
			r.Errorf("wrote: %s", by)
		}
		r.onlyHoldersWrote()
	})
}

// Whatever happens to the requests of three instances, nobody writes without the lease, and
// somebody does write.
func TestG06NobodyWritesWithoutTheLeaseWhateverTheNetworkDoes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withReplicas(t, func(r *replicas) { r.randomWeather(seed) })
		})
	}
}

func (r *replicas) randomWeather(seed uint64) {
	var all []*replica
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, r.start(name, copies()))
	}
	r.create(newPage("default", "p"))
	w := newWeather(seed, "a", "b", "c")
	for step := range 40 {
		w.change()
		r.disturb(w.fault)
		r.touch("p", fmt.Sprint("v", step))
		r.pass(w.lasts())
	}
	r.disturb(nil)
	r.touch("p", "calm")
	r.pass(2 * time.Minute)
	leading := ""
	for _, one := range all {
		if one.Leading() {
			leading = cmp.Or(leading, one.name)
		}
	}
	r.lead(leading, all...)
	wrote := r.onlyHoldersWrote()
	if leading == "" || wrote[leading] == 0 {
		r.Errorf("%q leads at last; writes: %v", leading, wrote)
	}
	for _, one := range all {
		noError(r.T, one.stop())
	}
	if got := r.model.Objects("configmaps")[0].Object["data"].(map[string]any)["data"]; got != "calm" {
		r.Errorf("at last there is %q", got)
	}
}
