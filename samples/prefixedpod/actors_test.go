package prefixedpod_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

// play is one history: ten bad minutes, and then peace.
func (w *world) play() {
	random := w.random(0)
	lags := []time.Duration{0, time.Second, time.Minute}
	w.lag(lags[random.IntN(3)], lags[random.IntN(3)])
	peace := time.Now().Add(disturbed)
	faults := &faults{world: w, random: w.random(2), until: peace, lateness: []time.Duration{0, 3 * time.Second}[random.IntN(2)]}
	w.model.Intercept(faults.decide)
	w.create("p", "p-0-")
	w.live(w.kubelet.run)
	w.live(w.collectGarbage)
	w.live(func(context.Context) error { w.changePrefixes(w.random(3), peace); return nil })
	w.live(func(context.Context) error { return w.removePods(w.random(4), peace) })
	w.live(func(context.Context) error { return w.disturbWatches(w.random(5), peace) })
	if random.IntN(4) == 0 {
		w.live(func(context.Context) error { return w.replacePrimary(w.random(6), peace) })
	}
	w.live(func(context.Context) error { w.restart(w.random(7)); return nil })
	w.sleep(disturbed + settled)
	synctest.Wait()
	w.judge("after 30 quiet minutes")
	before := w.sentWrites()
	w.sleep(silence)
	if after := w.sentWrites(); len(after) != len(before) {
		w.t.Errorf("seed %d: writes at rest (G12): %q", w.seed, after[len(before):])
	}
	w.judge("in the end")
	w.end()
}

// faults decides about the requests of the operator, and changes the prefix in the midst of them.
type faults struct {
	*world
	until    time.Time
	lateness time.Duration

	draws  sync.Mutex
	random *rand.Rand // guarded by draws
	races  int
}

func (f *faults) decide(r apimodel.Request) apimodel.Fault {
	if !strings.HasPrefix(r.UserAgent, operatorName) {
		return apimodel.Fault{}
	}
	f.draws.Lock()
	defer f.draws.Unlock()
	if isWrite(r) {
		f.send(r)
	}
	if !time.Now().Before(f.until) {
		return apimodel.Fault{}
	}
	fault := apimodel.Fault{Lose: r.Verb != "watch" && f.chance(15), Drop: f.chance(8)}
	if f.chance(5) {
		code := []int32{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests}[f.random.IntN(3)]
		fault.Answer = &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: "Faulty", Details: &metav1.StatusDetails{RetryAfterSeconds: 1}}
	}
	if f.lateness > 0 {
		fault.Delay, fault.Linger = time.Duration(f.random.Int64N(int64(f.lateness))), time.Duration(f.random.Int64N(int64(f.lateness)))
	}
	if isWrite(r) && f.chance(5) {
		fault.Linger = 40 * time.Second // longer than the operator waits for an answer
	}
	if isWrite(r) && f.races < 3 && f.chance(20) {
		f.races++
		f.race(f.races, f.random.Int64N(int64(fault.Delay+fault.Linger)+1))
	}
	return fault
}

func (f *faults) chance(percent int) bool { return f.random.IntN(100) < percent }

// race changes the prefix while the request is under way, before or after it is carried out.
func (f *faults) race(n int, after int64) {
	f.live(func(context.Context) error {
		f.sleep(time.Duration(after))
		f.changePrefix("p", fmt.Sprintf("race-%d-", n))
		return nil
	})
}

func (w *world) send(r apimodel.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, fmt.Sprintf("%s %s %s %s", time.Now().Format("15:04:05"), r.Verb, r.Resource, r.Name))
}

func (w *world) sentWrites() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// changePrefixes changes the prefix a few times, some of them in quick succession.
func (w *world) changePrefixes(random *rand.Rand, until time.Time) {
	for i := range random.IntN(6) {
		w.sleep(time.Duration(random.Int64N(int64([]time.Duration{time.Second, 2 * time.Minute}[random.IntN(2)]))))
		if time.Now().After(until) {
			return
		}
		w.changePrefix("p", fmt.Sprintf("p-%d-", i+1))
	}
}

// removePods deletes Pods behind the operator's back, gracefully or not.
func (w *world) removePods(random *rand.Rand, until time.Time) error {
	for range random.IntN(3) {
		w.sleep(time.Duration(random.Int64N(int64(3 * time.Minute))))
		for _, pod := range w.pods() {
			if time.Now().After(until) {
				return nil
			}
			var options []client.DeleteOption
			if random.IntN(2) == 0 {
				options = append(options, client.GracePeriodSeconds(0))
			}
			if err := w.admin.Delete(w.ctx, &pod, options...); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// disturbWatches breaks watches, so that they start again.
func (w *world) disturbWatches(random *rand.Rand, until time.Time) error {
	for range random.IntN(5) {
		w.sleep(time.Duration(random.Int64N(int64(3 * time.Minute))))
		if time.Now().After(until) {
			return nil
		}
		plural := []string{"pods", "prefixedpods"}[random.IntN(2)]
		switch random.IntN(3) {
		case 0:
			w.model.Cut(plural)
		case 1:
			w.model.Expire(plural)
		case 2:
			w.model.Stall(plural)
			w.sleep(time.Duration(random.Int64N(int64(time.Minute))))
			w.model.Release(plural)
		}
	}
	return nil
}

// replacePrimary deletes the PrefixedPod, and makes another one of that name.
func (w *world) replacePrimary(random *rand.Rand, until time.Time) error {
	w.sleep(time.Duration(random.Int64N(int64(5 * time.Minute))))
	err := w.admin.Delete(w.ctx, &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}})
	w.sleep(time.Duration(random.Int64N(int64(time.Minute))))
	w.create("p", "again-")
	return client.IgnoreNotFound(err)
}

// collectGarbage deletes the Pods of PrefixedPods that are gone, because nothing else here follows
// owner references.
func (w *world) collectGarbage(ctx context.Context) error {
	for w.sleep(10 * time.Second) {
		living := map[types.UID]bool{}
		for _, primary := range w.model.Objects("prefixedpods") {
			living[primary.GetUID()] = true
		}
		for _, pod := range w.pods() {
			if pod.DeletionTimestamp != nil || living[metav1.GetControllerOf(&pod).UID] {
				continue
			}
			if err := w.admin.Delete(ctx, &pod); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// restart lets the operator die up to three times, each time at some point of one of its writes.
func (w *world) restart(random *rand.Rand) {
	for deaths := random.IntN(4); w.ctx.Err() == nil; deaths-- {
		var crash *testenv.Crash
		if deaths > 0 {
			crash = testenv.NewCrash(1+random.IntN(6), testenv.When(random.IntN(3)))
		}
		w.operate(w.ctx, crash)
		w.sleep(time.Duration(random.Int64N(int64(time.Minute))))
	}
}

// judge compares what there is with what there should be.
func (w *world) judge(when string) {
	w.t.Helper()
	primary, pods := w.primary("p"), w.pods()
	if len(pods) == 1 && pods[0].DeletionTimestamp == nil && strings.HasPrefix(pods[0].Name, primary.Spec.PodNamePrefix) &&
		metav1.GetControllerOf(&pods[0]).UID == primary.UID && primary.Status.GeneratedPodName == pods[0].Name {
		return
	}
	w.t.Errorf("seed %d: %s: prefix %s, status %s, Pods:", w.seed, when, primary.Spec.PodNamePrefix, primary.Status.GeneratedPodName)
	for _, pod := range pods {
		w.t.Errorf("%s %s, in deletion since %v", pod.Name, pod.UID, pod.DeletionTimestamp)
	}
}

// check looks at all that was ever committed.
func (w *world) check() {
	c := w.census()
	if len(c.violations) > 0 {
		w.t.Errorf("seed %d: G11:\n%s", w.seed, strings.Join(c.violations, "\n"))
	}
	for _, owner := range slices.Sorted(maps.Keys(c.made)) {
		w.checkEconomy(owner, c.names(owner))
	}
	if w.t.Failed() {
		for _, commit := range w.model.History() {
			w.t.Logf("%v %d %s %s %s/%s by %s %.20s", commit.At.Format("15:04:05.000"), commit.Version, commit.Event, commit.Object.GetName(), commit.Resource, commit.Subresource, commit.Verb, commit.UserAgent)
		}
		w.t.Log(strings.Join(w.log, "\n"))
	}
}

// checkEconomy: a prefix is had once, so it needs one Pod, and one more for each that somebody else
// removed.
func (w *world) checkEconomy(owner types.UID, names []string) {
	made, removed := map[string]int{}, map[string]int{}
	prefixOf := func(name string) string { return name[:strings.LastIndexByte(name, '-')] }
	for _, name := range names {
		made[prefixOf(name)]++
	}
	for _, c := range w.model.History() {
		if c.Resource == "pods" && c.Verb == "delete" && !strings.HasPrefix(c.UserAgent, operatorName) {
			removed[prefixOf(c.Object.GetName())]++
		}
	}
	for prefix, n := range made {
		if n > 1+removed[prefix] {
			w.t.Errorf("seed %d: %d Pods of %s with the prefix %s, of which others removed %d", w.seed, n, owner, prefix, removed[prefix])
		}
	}
}
