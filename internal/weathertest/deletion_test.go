package weathertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// moment is when in the life of a page somebody does something to it, once for each name.
type moment string

const (
	deletedInReconcile  moment = "deleted-in-reconcile"
	replacedInReconcile moment = "replaced-in-reconcile"
	deletedInErrors     moment = "deleted-in-errors"
	deletedAnytime      moment = "deleted-anytime"
	changedInCleanup    moment = "changed-in-cleanup"
	freedInCleanup      moment = "freed-in-cleanup"
	replacedInCleanup   moment = "replaced-in-cleanup"
)

var moments = []moment{deletedInReconcile, replacedInReconcile, deletedInErrors, deletedAnytime, changedInCleanup, freedInCleanup, replacedInCleanup}

// statusWay writes a status. Those that leave it to the framework have no write of their own for
// Reconcile.
type statusWay struct {
	mode      framework.WriteMode
	resource  bool // is written too
	reconcile func(ctx context.Context, c *pageContext, p *page) error
	cleanup   func(ctx context.Context, c *pageContext, p *page) error
}

func updateStatus(ctx context.Context, c *pageContext, p *page) error {
	p.Status.URL = urlOf(p)
	_, err := framework.UpdateStatus(ctx, c, p)
	return err
}

func mergeStatus(ctx context.Context, c *pageContext, p *page) error {
	_, err := framework.MergePatch(ctx, c, p, fmt.Appendf(nil, `{"status":{"url":%q}}`, urlOf(p)), framework.Subresource("status"))
	return err
}

func jsonStatus(ctx context.Context, c *pageContext, p *page) error {
	_, err := framework.JSONPatch(ctx, c, p, fmt.Appendf(nil, `[{"op":"add","path":"/status","value":{"url":%q}}]`, urlOf(p)), framework.Subresource("status"))
	return err
}

func applyStatus(ctx context.Context, c *pageContext, p *page) error {
	_, err := framework.ApplyStatus(ctx, c, statusAlone(p))
	return err
}

// statusAlone is the intent of an apply.
func statusAlone(p *page) *page {
	intent := newPage(p.Namespace, p.Name, "")
	intent.Status.URL = urlOf(p)
	return intent
}

// applyAll is an apply that could make what is gone exist again, and one of the status.
func applyAll(ctx context.Context, c *pageContext, p *page) error {
	if _, err := framework.Apply(ctx, c, allOf(p)); err != nil {
		return err
	}
	return applyStatus(ctx, c, p)
}

// allOf is the intent of an apply of the resource and its status.
func allOf(p *page) *page {
	intent := statusAlone(p)
	intent.Spec.HTML = p.Spec.HTML
	intent.Annotations = map[string]string{writtenFor: string(p.UID)}
	return intent
}

const writtenFor = "written-for"

// racer writes the status in Reconcile, for its failures and in Cleanup, each time after what
// somebody else does.
type racer struct {
	way statusWay

	mu      sync.Mutex // guards everything below
	done    map[string]bool
	failed  map[string]bool
	created map[types.UID]bool
	freed   map[types.UID]bool // by others, of the finalizer
	cleaned map[types.UID]bool
	faults  []error
}

func (r *racer) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	if r.at(deletedInErrors, p) && r.fails(p.Name) {
		return pageUpdate{}, errors.New("the first run of it fails")
	}
	r.ambush(p, deletedInReconcile, replacedInReconcile)
	switch {
	case r.way.reconcile != nil:
		return pageUpdate{}, r.way.reconcile(ctx, c, p)
	case r.way.mode == framework.ByApply && r.way.resource:
		return framework.PatchResourceAndStatus(allOf(p)), nil
	case r.way.mode == framework.ByApply:
		return framework.PatchStatus(statusAlone(p)), nil
	}
	p.Status.URL = urlOf(p)
	return framework.PatchStatus(p), nil
}

func (r *racer) ErrorStatus(_ context.Context, p *page, _ *pageContext, _ error) framework.ErrorStatusControl[*page] {
	r.ambush(p, deletedInErrors)
	if r.way.mode == framework.ByApply {
		return framework.PatchErrorStatus(statusAlone(p))
	}
	p.Status.URL = urlOf(p)
	return framework.PatchErrorStatus(p)
}

func (r *racer) Cleanup(ctx context.Context, p *page, c *pageContext) (framework.DeleteControl, error) {
	r.ambush(p, changedInCleanup, freedInCleanup, replacedInCleanup)
	if err := r.way.cleanup(ctx, c, p); err != nil {
		return framework.RemoveFinalizer(), err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleaned[p.UID] = true
	return framework.RemoveFinalizer(), nil
}

func (r *racer) at(m moment, p *page) bool { return strings.HasPrefix(p.Name, string(m)+"-") }

func (r *racer) fails(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.failed[name]
	r.failed[name] = true
	return first
}

// ambush does what is to be done to the page at one of these moments, if that was not done before.
func (r *racer) ambush(p *page, now ...moment) {
	i := slices.IndexFunc(now, func(m moment) bool { return r.at(m, p) })
	if i < 0 || !r.first(p.Name) {
		return
	}
	var err error
	switch now[i] {
	case deletedInReconcile, deletedInErrors:
		err = admin.Delete(ctx, newPage(p.Namespace, p.Name, ""), client.Preconditions{UID: &p.UID})
	case replacedInReconcile:
		if err = admin.Delete(ctx, newPage(p.Namespace, p.Name, ""), client.Preconditions{UID: &p.UID}); err == nil {
			r.free(p)
			err = r.create(newPage(p.Namespace, p.Name, "second"))
		}
	case changedInCleanup:
		changePage(p.Namespace, p.Name, func(p *page) bool { p.Labels = map[string]string{"changed": "yes"}; return true })
	case freedInCleanup:
		r.free(p)
	case replacedInCleanup:
		r.free(p)
		err = r.create(newPage(p.Namespace, p.Name, "second"))
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.faults = append(r.faults, fmt.Errorf("%s of %s: %w", now[i], p.Name, err))
	}
}

func (r *racer) first(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.done[name]
	r.done[name] = true
	return first
}

// free takes the finalizers off a page in deletion, which goes with the last.
func (r *racer) free(p *page) {
	r.mu.Lock()
	r.freed[p.UID] = true
	r.mu.Unlock()
	changePage(p.Namespace, p.Name, func(now *page) bool {
		now.Finalizers = nil
		return now.UID == p.UID
	})
}

func (r *racer) create(p *page) error {
	if err := admin.Create(ctx, p); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created[p.UID] = true
	return nil
}

var _ = Describe("A deletion", func() {
	const each = 4

	DescribeTable("G03 G07 G14 around a status that is written leads to a cleanup, and to nothing else", func(way statusWay) {
		ns := namespace()
		book := begin(ns)
		r := &racer{way: way, done: map[string]bool{}, failed: map[string]bool{}, created: map[types.UID]bool{}, freed: map[types.UID]bool{}, cleaned: map[types.UID]bool{}}
		proxy := behindProxy(faultproxy.Lag("late", 30*time.Millisecond, "webpages"))
		op, _ := operate(proxy.Config(), ns, r, pageOptions{
			Name: "racer", PrimaryWrites: way.mode, Concurrency: 16, Retry: hurried, AllGenerations: true,
		})
		var racing sync.WaitGroup
		for _, m := range moments {
			for i := range each {
				p := newPage(ns, fmt.Sprintf("%s-%d", m, i), "first")
				Expect(r.create(p)).To(Succeed())
				if m == deletedAnytime {
					racing.Go(func() { _ = admin.Delete(ctx, p.DeepCopy()) })
				}
			}
		}
		racing.Wait()
		Eventually(unsettled(ns)).Should(Equal(names(each, replacedInReconcile, changedInCleanup, freedInCleanup, replacedInCleanup)))
		for _, name := range namesOf(ns, &webpagev1.WebPageList{}) {
			Expect(admin.Delete(ctx, newPage(ns, name, ""))).To(Succeed())
		}
		Eventually(unsettled(ns)).Should(Equal(names(each, replacedInCleanup)))
		for _, name := range namesOf(ns, &webpagev1.WebPageList{}) {
			Expect(admin.Delete(ctx, newPage(ns, name, ""))).To(Succeed())
		}
		ends(ns, op)
		r.judge(book.pages())
	},
		Entry("by the framework's patch", statusWay{mode: framework.ByPatch, cleanup: mergeStatus}),
		Entry("by the framework's apply", statusWay{mode: framework.ByApply, cleanup: applyStatus}),
		Entry("by the framework's apply, with the resource", statusWay{mode: framework.ByApply, resource: true, cleanup: applyAll}),
		Entry("by the author's update", statusWay{mode: framework.ByPatch, reconcile: updateStatus, cleanup: updateStatus}),
		Entry("by the author's merge patch", statusWay{mode: framework.ByPatch, reconcile: mergeStatus, cleanup: mergeStatus}),
		Entry("by the author's JSON patch", statusWay{mode: framework.ByPatch, reconcile: jsonStatus, cleanup: jsonStatus}),
		Entry("by the author's apply", statusWay{mode: framework.ByPatch, reconcile: applyStatus, cleanup: applyStatus}),
		Entry("by the author's apply, with the resource", statusWay{mode: framework.ByPatch, reconcile: applyAll, cleanup: applyAll}),
	)
})

// unsettled returns the pages that there are, marking those that are in deletion or without their
// status.
func unsettled(ns string) func() ([]string, error) {
	return func() (all []string, err error) {
		var pages webpagev1.WebPageList
		err = admin.List(ctx, &pages, client.InNamespace(ns))
		for _, p := range pages.Items {
			name := p.Name
			if p.DeletionTimestamp != nil {
				name += ", in deletion"
			}
			if p.Status.URL != urlOf(&p) {
				name += fmt.Sprintf(", with status %q", p.Status.URL)
			}
			all = append(all, name)
		}
		return all, err
	}
}

// names are those of the pages of some moments, in order.
func names(each int, of ...moment) (all []string) {
	for _, m := range of {
		for i := range each {
			all = append(all, fmt.Sprintf("%s-%d", m, i))
		}
	}
	slices.Sort(all)
	return all
}

// judge looks for what was cleaned up by nobody, rose again, or has the status of another.
func (r *racer) judge(pages map[types.UID][]commit) {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.faults).To(BeEmpty())
	Expect(slices.Sorted(maps.Keys(pages))).To(Equal(slices.Sorted(maps.Keys(r.created))), "nobody else makes pages")
	for uid, history := range pages {
		claimed, overlooked := false, false
		for i, c := range history {
			what := fmt.Sprintf("%s (%s) at %d", c.name, uid, c.revision)
			claimed = claimed || slices.Contains(c.page.Finalizers, "samples.evenkeel.dev/webpage-finalizer")
			Expect(c.page.Status.URL).To(Or(BeEmpty(), HavePrefix(string(uid)+"/")), what)
			Expect(c.page.Annotations[writtenFor]).To(Or(BeEmpty(), Equal(string(uid))), what)
			Expect(c.deleted).To(Equal(i == len(history)-1), what)
			// A request to delete that has read no finalizer deletes whatever there is by then: the server's
			// own race.
			overlooked = c.deleted && c.page.DeletionTimestamp == nil
		}
		if claimed && !overlooked && !r.freed[uid] {
			Expect(r.cleaned).To(HaveKey(uid), history[0].name+" was not cleaned up")
		}
	}
}
