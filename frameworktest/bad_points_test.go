package frameworktest_test

import (
	"context"
	"errors"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// pointPairs are flaws that show at one kind of point, or by one verdict.
func pointPairs() []pair {
	return []pair{
		{
			name: "ignores what was there before it", story: appears, bad: ignoresOlder, twin: "takes the status for memory",
			found: "crash-before",
			first: "crash-before@1, at write 1: apply configmaps default/hello", says: "- configmaps hello",
		},
		{
			name: "repeats what got lost", virtual: "it takes any ConfigMap for its own, and Kubernetes puts one into each namespace", story: appears, bad: repeatsLost, twin: "careless",
			found: "lost-answer",
			first: "lost-answer@1, at write 1: create configmaps default/hello", says: "+ configmaps hello-*",
		},
		{
			name: "repeats what failed", virtual: "as above", story: appears, bad: repeatsFailed, twin: "careless",
			found: "failed-500",
			first: "failed-500@1, at write 1: create configmaps default/hello", says: "+ configmaps hello-*",
		},
		{
			name: "takes too many requests for a quota", story: appears, bad: quota, twin: "takes the status for memory",
			found: "refused-429",
			first: "refused-429@1, at write 1: apply configmaps default/hello", says: "the quota is used up",
		},
		{
			name: "takes an internal error for an answer", story: appears, bad: internalError, twin: "takes the status for memory",
			found: "refused-500",
			first: "refused-500@1, at write 1: apply configmaps default/hello", says: "a webhook forbids it",
		},
		{
			name: "takes a conflict for an answer", story: changes, bad: conflict, good: noConflict,
			found: "refused-409",
			first: "refused-409@2, at write 2: update configmaps default/hello", says: "good morning",
		},
		{
			name: "watches once", story: textFollows, bad: watchesOnce, good: hasASecondary,
			found: "gap idle",
			first: "gap@1, at write 1: patch sites.test.evenkeel.dev/status default/hello", says: "good morning",
		},
		{
			name: "takes a failed read for an empty answer", story: changes, bad: ignoresFailedReads, good: minds,
			found: "failed-read",
			first: "failed-read@2", says: "+ external cloud",
		},
		{
			name: "has a heartbeat that ends with the site", virtual: "it takes an hour", story: endsWithADeletion, mask: unchecked, bad: heartbeat, twin: "takes the status for memory",
			found: "idle",
			first: "idle", says: "writes in 1h0m0s of rest",
		},
		{
			name: "loads its state at the start", story: two, ordered: true, bad: loadsAtTheStart, good: looksAtAll,
			found: "rival",
			first: "rival@1, at write 1: patch sites.test.evenkeel.dev/status default/hello", says: "number: 2",
		},
		{
			name: "lists what may be old", virtual: "the cache of the sandbox cannot be made old", story: appears, bad: listsOld, good: listsConsistently,
			found: "stale-server",
			first: "stale-server@1, at write 1: create configmaps default/hello", says: "+ configmaps hello-*",
		},
		{
			name: "gives up on what is old", virtual: "it takes minutes", story: appears, bad: givesUp, twin: "takes the status for memory",
			found: "late",
			first: "late@3m0s", says: "text: failed",
		},
		{
			name: "believes that what is made first is seen first", virtual: "on a server it may start after its users", story: sharedFirst, bad: believesInOrder, good: looksAgain,
			found: "late",
			first: "late@3s:configmaps", says: "text: nothing to show",
		},
		{
			name: "does not watch what it makes", story: othersDelete, bad: blind, good: sees,
			found: "restart",
			first: "restart", says: "such as a time or a counter?\n    + configmaps hello",
		},
		{
			name: "has a heartbeat", virtual: "it takes half an hour", story: appears, bad: heartbeat, twin: "takes the status for memory",
			found: "no-fault",
			first: "no-fault", says: "writes in 1h0m0s of rest, the first: patch sites.test.evenkeel.dev/status default/hello",
		},
		{
			name: "takes a slow answer for the last word", virtual: "on a server answers take no longer than two seconds", story: appears, bad: impatient(true), good: impatient(false),
			found: "slow-answer",
			first: "slow-answer@1, at write 1: apply configmaps default/hello", says: "text: failed",
		},
		{
			name: "keeps its finalizer", story: disappears, bad: keepsItsFinalizer, twin: "forgets the finalizer",
			found: "no-fault",
			first: "no-fault", says: "sites/default/hello is still in deletion: its finalizers are",
		},
		{
			name: "tidies up behind itself", story: appears, always: atMostOne, bad: tidiesUp, twin: "careless",
			found: "crash-answered crash-before crash-committed refused-409 refused-429 refused-500 rival stale-server",
			first: "crash-committed@1, at write 1: create configmaps default/hello", says: "by operator (3s): there are 2 ConfigMaps",
		},
	}
}

// ignoresOlder leaves alone what users made before the process started, so as not to do it again.
func ignoresOlder(op *framework.Operator, _ *frameworktest.Process) error {
	started := time.Now()
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.CreationTimestamp.Time.Before(started) {
			return noUpdate, nil
		}
		_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text))
		return noUpdate, err
	}), siteOptions{})
}

// repeats lists what there is, and creates what lacks, a few times if that fails in a certain way.
func repeats(when func(error) bool) operator {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		api := bare(p).CoreV1()
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			all, err := api.ConfigMaps(site.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil || len(all.Items) > 0 {
				return noUpdate, err
			}
			for range 3 {
				_, err = api.ConfigMaps(site.Namespace).Create(ctx, generated(site), metav1.CreateOptions{})
				if err == nil || !when(err) {
					break
				}
			}
			return noUpdate, err
		}), siteOptions{})
	}
}

var (
	repeatsLost   = repeats(func(err error) bool { return errors.Is(err, syscall.ECONNRESET) })
	repeatsFailed = repeats(apierrors.IsInternalError)
)

// believes publishes, and takes an error for the last word.
func believes(isLast func(error) bool, says string) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
			switch {
			case err == nil:
				site.Status.Text = site.Spec.Text
			case isLast(err):
				site.Status.Text = says
			default:
				return noUpdate, err
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{Secondaries: framework.Secondaries(&configMaps{})})
	}
}

var (
	quota         = believes(apierrors.IsTooManyRequests, "the quota is used up")
	internalError = believes(apierrors.IsInternalError, "a webhook forbids it")
)

// updates reads, changes and updates, as operators did before server-side apply.
func updates(done func(error) bool) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		owned := &configMaps{}
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			present, err := owned.Get(c)
			switch {
			case err != nil:
			case present == nil:
				_, err = framework.Create(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
			case present.Data["text"] != site.Spec.Text:
				present.Data["text"] = site.Spec.Text
				_, err = framework.Update(ctx, c, present)
			}
			if done(err) {
				return noUpdate, nil
			}
			return noUpdate, err
		}), siteOptions{Secondaries: framework.Secondaries(owned)})
	}
}

var conflict, noConflict = updates(apierrors.IsConflict), updates(func(error) bool { return false })

// textFollows is a story in which a text of a user's changes, which sites show.
func textFollows(w *frameworktest.World) {
	shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"text": "hi"}}
	w.Create(shared)
	appears(w)
	w.Merge(shared, `{"data":{"text":"good morning"}}`)
	w.Rest()
}

// othersDelete is a story in which somebody deletes what the operator made.
func othersDelete(w *frameworktest.World) {
	appears(w)
	w.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}})
	w.Rest()
}

// blind does not hear of what others do to its ConfigMap.
func blind(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, makesOne, siteOptions{})
}

// sees does.
func sees(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, makesOne, siteOptions{Secondaries: framework.Secondaries(&configMaps{})})
}

var makesOne = reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
	_, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary())
	return noUpdate, err
})

// impatient gives the API server two seconds for its answer, and may take that for the last word.
func impatient(forGood bool) operator {
	return func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
			if site.Status.Text == "failed" {
				return noUpdate, nil
			}
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := framework.Apply(short, c, named(site, site.Name, site.Spec.Text))
			if site.Status.Text = site.Spec.Text; err != nil {
				if !forGood || !errors.Is(err, context.DeadlineExceeded) {
					return noUpdate, err
				}
				site.Status.Text = "failed"
			}
			return framework.PatchStatus(site), nil
		}), siteOptions{})
	}
}

// sharedFirst is a story of a shared text, and a site that shows it.
func sharedFirst(w *frameworktest.World) {
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"text": "hi"}})
	w.Proceed(time.Second)
	w.Create(newSite("hello", ""))
	w.Rest()
}

// showsShared shows the shared text, or that there is none.
func showsShared(op *framework.Operator, forGood bool) error {
	all := &configMaps{Map: func(o *corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: o.Namespace, Name: "hello"}}
	}}
	return framework.Register(op, reconcile(func(_ context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		shared, err := all.GetNamed(c, site.Namespace, "shared")
		switch {
		case err != nil || site.Status.Text != "" && forGood:
			return noUpdate, err
		case shared == nil:
			site.Status.Text = "nothing to show"
		default:
			site.Status.Text = shared.Data["text"]
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: framework.Secondaries(all)})
}

// believesInOrder says for good that there is no text if it sees none when it sees the site.
func believesInOrder(op *framework.Operator, _ *frameworktest.Process) error {
	return showsShared(op, true)
}

// looksAgain when there is a text.
func looksAgain(op *framework.Operator, _ *frameworktest.Process) error {
	return showsShared(op, false)
}

// showing writes the shared text into the status.
func showing(text func(ctx context.Context, site *Site, c *siteContext) (*corev1.ConfigMap, error)) reconcile {
	return func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		shared, err := text(ctx, site, c)
		if err != nil || shared == nil {
			return noUpdate, err
		}
		site.Status.Text = shared.Data["text"]
		return framework.PatchStatus(site), nil
	}
}

// once is an event source that watches ConfigMaps by itself, until its watch ends.
type once struct {
	p *frameworktest.Process
}

func (once) Name() string            { return "once" }
func (once) Err() error              { return nil }
func (once) Synced() <-chan struct{} { all := make(chan struct{}); close(all); return all }
func (o once) Start(sink eventsource.Sink) (func(), error) {
	ctx, stop := context.WithCancel(context.Background())
	watch, err := bare(o.p).CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		stop()
		return nil, err
	}
	go func() {
		for event := range watch.ResultChan() {
			if shared, is := event.Object.(*corev1.ConfigMap); is {
				sink.Offer(trc.Key{Namespace: shared.Namespace, Name: "hello"}, eventsource.Offer{Cause: timeline.External{Source: "once"}})
			}
		}
	}()
	return func() { watch.Stop(); stop() }, nil
}

// watchesOnce hears of changes from a watch of its own.
func watchesOnce(op *framework.Operator, p *frameworktest.Process) error {
	return framework.Register(op, showing(func(ctx context.Context, site *Site, _ *siteContext) (*corev1.ConfigMap, error) {
		return bare(p).CoreV1().ConfigMaps(site.Namespace).Get(ctx, "shared", metav1.GetOptions{})
	}), siteOptions{Sources: []eventsource.Source{once{p}}})
}

// hasASecondary hears of changes from the framework.
func hasASecondary(op *framework.Operator, _ *frameworktest.Process) error {
	all := &configMaps{Map: func(o *corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: o.Namespace, Name: "hello"}}
	}}
	return framework.Register(op, showing(func(_ context.Context, site *Site, c *siteContext) (*corev1.ConfigMap, error) {
		return all.GetNamed(c, site.Namespace, "shared")
	}), siteOptions{Secondaries: framework.Secondaries(all)})
}

// numbers gives each site the number after the highest.
func numbers(op *framework.Operator, highest func(c *siteContext) (int64, error)) error {
	return framework.Register(op, reconcile(func(_ context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.Number == 0 {
			last, err := highest(c)
			if err != nil {
				return noUpdate, err
			}
			site.Status.Number = last + 1
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{Concurrency: 1})
}

// loadsAtTheStart reads all numbers when the process starts, and counts from there.
func loadsAtTheStart(op *framework.Operator, p *frameworktest.Process) error {
	all, err := sites(p)
	if err != nil {
		return err
	}
	var last int64
	for i := range all {
		last = max(last, all[i].Status.Number)
	}
	given := map[types.UID]int64{}
	return numbers(op, func(c *siteContext) (int64, error) {
		uid := c.Primary().UID
		if _, known := given[uid]; !known {
			given[uid] = last
			last++
		}
		return given[uid], nil
	})
}

// looksAtAll looks at all sites of the namespace when it needs a number.
func looksAtAll(op *framework.Operator, _ *frameworktest.Process) error {
	return numbers(op, func(c *siteContext) (int64, error) {
		all, err := c.Primaries().List(c.Primary().Namespace)
		var last int64
		for _, site := range all {
			last = max(last, site.Status.Number)
		}
		return last, err
	})
}

// lists creates what is not in a list.
func lists(options metav1.ListOptions) operator {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		api := bare(p).CoreV1()
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			all, err := api.ConfigMaps(site.Namespace).List(ctx, options)
			if err == nil && len(all.Items) == 0 {
				_, err = api.ConfigMaps(site.Namespace).Create(ctx, generated(site), metav1.CreateOptions{})
			}
			return noUpdate, err
		}), siteOptions{})
	}
}

var listsOld, listsConsistently = lists(metav1.ListOptions{ResourceVersion: "0"}), lists(metav1.ListOptions{})

// givesUp takes what it has not done in time for a failure.
func givesUp(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.Text == "" && time.Since(site.CreationTimestamp.Time) > 150*time.Second {
			site.Status.Text = "failed"
		}
		if site.Status.Text != "failed" {
			if _, err := framework.Apply(ctx, c, named(site, site.Name, site.Spec.Text), framework.OwnedByPrimary()); err != nil {
				return noUpdate, err
			}
			site.Status.Text = "published"
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: framework.Secondaries(&configMaps{})})
}

// heartbeat says each half hour that it is there.
func heartbeat(op *framework.Operator, _ *frameworktest.Process) error {
	return framework.Register(op, reconcile(func(_ context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
		site.Status.Checked = time.Now().Format(time.RFC3339)
		return framework.PatchStatus(site).RescheduleAfter(30 * time.Minute), nil
	}), siteOptions{})
}

// endsWithADeletion is a story after which there is nothing that could write.
func endsWithADeletion(w *frameworktest.World) {
	changes(w)
	w.Delete(newSite("hello", ""))
}

// ignoresFailedReads makes again what it cannot see.
func ignoresFailedReads(op *framework.Operator, p *frameworktest.Process) error {
	cloud := p.External("cloud")
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
		if found, _ := cloud.List(ctx, nameOf(site)); len(found) > 0 {
			return noUpdate, nil
		}
		_, err := cloud.Create(ctx, nameOf(site), "")
		return noUpdate, err
	}), siteOptions{})
}

// minds knows nothing if a read fails.
func minds(op *framework.Operator, p *frameworktest.Process) error {
	cloud := p.External("cloud")
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
		found, err := cloud.List(ctx, nameOf(site))
		if err == nil && len(found) == 0 {
			_, err = cloud.Create(ctx, nameOf(site), "")
		}
		return noUpdate, err
	}), siteOptions{})
}

// keepsItsFinalizer waits until it has nothing to remove, and then for an event that does not come.
func keepsItsFinalizer(op *framework.Operator, p *frameworktest.Process) error {
	b := bookings{p.External("cloud")}
	return framework.Register(op, cleaning{
		reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			_, err := b.ensure(ctx, site)
			return noUpdate, err
		},
		cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
			if found, err := b.List(ctx, nameOf(site)); err != nil || len(found) == 0 {
				return framework.RemoveFinalizer(), err
			}
			return framework.KeepFinalizer(), b.remove(ctx, site)
		},
	}, siteOptions{})
}

// tidiesUp remembers in the status alone what it has created, and deletes everything else.
func tidiesUp(op *framework.Operator, _ *frameworktest.Process) error {
	owned := &configMaps{}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if site.Status.ID == "" {
			made, err := framework.Create(ctx, c, generated(site), framework.OwnedByPrimary())
			if err != nil {
				return noUpdate, err
			}
			site.Status.ID = made.Name
		}
		all, err := owned.List(c)
		for _, o := range all {
			if err == nil && o.Name != site.Status.ID {
				err = framework.Delete(ctx, c, o)
			}
		}
		if err != nil {
			return noUpdate, err
		}
		return framework.PatchStatus(site), nil
	}), siteOptions{Secondaries: framework.Secondaries(owned)})
}
