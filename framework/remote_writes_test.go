package framework_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/timeline"
)

// written tells what clients of a model have written of a resource, as "event name by manager".
func written(m *apimodel.Model, resource string) string {
	var all []string
	for _, c := range m.History() {
		if c.Resource == resource {
			all = append(all, string(c.Event)+" "+c.Object.GetName()+" by "+c.Manager)
		}
	}
	return strings.Join(all, ", ")
}

// copied applies a ConfigMap of the page to the other cluster, and returns what reads show of it
// after that.
func (r *readers) copied(ctx context.Context, page *Page, c *pageContext, data string) (shown string, err error) {
	stored, err := framework.Apply(ctx, r.configMaps.In(c), configMapOf(page, data))
	if err != nil {
		return "", err
	}
	read, err := r.configMaps.GetNamed(c, stored.Namespace, stored.Name)
	if err != nil || read == nil || read.ResourceVersion != stored.ResourceVersion {
		return "", errors.Join(err, errors.New("G01: what was written is not what is read"))
	}
	return read.Data["data"], nil
}

func TestG05OwnWritesToAnotherClusterAreReadAtOnceAndDoNotTrigger(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			shown, err := r.copied(ctx, page, c, "mine")
			if err == nil && shown != "mine" {
				t.Errorf("reads show %q", shown)
			}
			return err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		r.expect(t, "p: p=far")
		far.model.Expire("configmaps") // a list tells it once more
		time.Sleep(time.Minute)
		r.expect(t)
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch(types.MergePatchType, []byte(`{"data":{"data":"theirs"}}`))))
		time.Sleep(time.Minute)
		r.expect(t, "p: p=theirs")
		if got := written(m.model, "configmaps"); got != "" {
			t.Errorf("in the operator's own cluster: %s", got)
		}
		runs := m.op.Records("webpage")
		if last := runs[len(runs)-1]; len(last.Requests) != 1 || last.Requests[0].Text != "apply ConfigMap default/p at http://apimodel" || last.Requests[0].Proof != timeline.Followed {
			t.Errorf("recorded: %v", last.Requests)
		}
		if cause := runs[len(runs)-1].Causes[0]; !strings.Contains(cause.String(), "at http://apimodel") {
			t.Errorf("the cause is %v", cause)
		}
		if now := m.op.Occupancy(); now.Edges != 0 || now.Confirmed != 1 {
			t.Errorf("G16: holds %+v", now)
		}
	})
}

// UIDs and versions of two clusters may be the same, as after one was copied: models count both
// alike.
func TestG04AnOwnWriteInOneClusterDoesNotExplainAChangeInAnother(t *testing.T) {
	overModel(t, func(m *modelled) {
		far := newModel(t)
		r := newReaders()
		near := framework.Secondary[*corev1.ConfigMap]{Name: "near", Map: mapToPage("p")}
		r.configMaps.Cluster, r.configMaps.Map = far.Config(), mapToPage("p")
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			_, err := r.copied(ctx, page, c, "mine")
			time.Sleep(time.Minute) // what is proven counts until the run is decided
			return err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps, &near)})()
		there, err := client.New(far.Config(), scheme)
		noError(t, err)
		noError(t, there.Create(m.Context(), newPage("default", "p"))) // so that both count on
		page := m.createPage("p")
		time.Sleep(10 * time.Second)
		theirs := m.createConfigMap("p", map[string]any{"data": "theirs"})
		mine := &corev1.ConfigMap{}
		noError(t, there.Get(m.Context(), client.ObjectKey{Namespace: "default", Name: "p"}, mine))
		if theirs.GetUID() != mine.GetUID() || page.GetUID() == theirs.GetUID() {
			t.Errorf("the test shows nothing: UIDs %s and %s", theirs.GetUID(), mine.GetUID())
		}
		if theirs.GetResourceVersion() != mine.GetResourceVersion() {
			t.Errorf("the test shows nothing: versions %s and %s", theirs.GetResourceVersion(), mine.GetResourceVersion())
		}
		time.Sleep(10 * time.Minute)
		if n := m.runs(); n != 2 {
			t.Errorf("%d runs, want one for the page and one for the ConfigMap of others", n)
		}
	})
}

// A mirror has the same kind, names and source in both clusters.
func TestAMirrorOfThePrimaryIsNotThePrimary(t *testing.T) {
	overModel(t, func(m *modelled) {
		far := newModel(t)
		mirror := framework.Secondary[*Page]{Cluster: far.Config(), Map: func(p *Page) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: p.Namespace, Name: p.Name}}
		}}
		r := &cleaningPages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			copied, err := framework.Apply(ctx, mirror.In(c), newPage(page.Namespace, page.Name))
			if err == nil && (len(copied.Finalizers) != 0 || len(c.Primary().Finalizers) != 1) {
				t.Errorf("finalizers of the mirror: %q, of the page: %q", copied.Finalizers, c.Primary().Finalizers)
			}
			page.Status.URL = "http://done"
			return framework.PatchStatus(page), err
		}
		r.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
			mirrored, err := mirror.Get(c)
			if err == nil && mirrored != nil {
				err = framework.Delete(ctx, mirror.In(c), mirrored)
			}
			return framework.RemoveFinalizer(), err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&mirror)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		if n := m.runs(); n != 1 {
			t.Errorf("G05: %d runs", n)
		}
		noError(t, m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		if here, there := m.model.Objects("webpages"), far.Objects("webpages"); len(here)+len(there) != 0 {
			t.Errorf("left are %v here and %v there", here, there)
		}
		if got := written(far, "webpages"); got != "ADDED p by webpage, DELETED p by virtual" && !strings.HasPrefix(got, "ADDED p by webpage, DELETED p") {
			t.Errorf("written there: %s", got)
		}
	})
}

func TestAWriteToTheWrongClusterIsRefused(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		for range 3 { // or the first UID of both were the same
			noError(t, there.Create(m.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "x"}}))
		}
		r.configMaps.Map = func(*corev1.ConfigMap) []types.NamespacedName { return nil }
		var errs []error
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			all, err := r.configMaps.GetNamed(c, "default", "p")
			if err != nil {
				return err
			}
			other := framework.Secondary[*corev1.ConfigMap]{}
			_, applied := framework.Apply(ctx, r.configMaps.In(c), configMapOf(page, ""), framework.OwnedByPrimary())
			_, updated := framework.Update(ctx, c, all)
			_, patched := framework.MergePatch(ctx, c, all, []byte(`{}`))
			_, moved := framework.Update(ctx, r.configMaps.In(c), page)
			_, unknown := framework.Apply(ctx, other.In(c), configMapOf(page, ""))
			errs = []error{framework.Delete(ctx, c, all), updated, patched, moved, applied, unknown}
			return nil
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("q")
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(errs) == 0 {
			t.Fatal("no run")
		}
		for i, want := range []string{"another cluster at http://apimodel", "another cluster", "another cluster", "another cluster", "OwnedByPrimary", "not among"} {
			if errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
				t.Errorf("error %d: %v, want %q", i, errs[i], want)
			}
		}
		if n := len(far.model.Objects("configmaps")); n != 4 {
			t.Errorf("%d ConfigMaps are there", n)
		}
	})
}

func TestG06WritesToAnotherClusterEndWithTheRunAndTheOperator(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
		var late framework.Writes
		r.then = func(_ context.Context, _ *Page, c *pageContext) error { late = r.configMaps.In(c); return nil }
		stop := m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		m.createPage("p")
		time.Sleep(time.Minute)
		write := func(by framework.Writes) error {
			_, err := framework.Apply(m.Context(), by, configMapOf(newPage("default", "late"), "x"))
			return err
		}
		synctest.Wait()
		if err := write(late); !errors.Is(err, framework.ErrRunEnded) {
			t.Errorf("after the run: %v", err)
		}
		outside := m.op.WriterAt(r.configMaps.Cluster, "outside")
		noError(t, write(outside))
		stop()
		if err := write(outside); !errors.Is(err, framework.ErrRunEnded) {
			t.Errorf("after the end of the operator: %v", err)
		}
		expectError(t, write(m.op.WriterAt(nil, "")), "WriterAt")
		if got := written(far.model, "configmaps"); !strings.HasSuffix(got, "ADDED late by outside") {
			t.Errorf("written there: %s", got)
		}
	})
}

func TestG06WritesToAnotherClusterEndWithTheLease(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		far := newModel(r.T)
		copies := &pages{}
		copies.configMaps.Cluster, copies.configMaps.Map = far.Config(), mapToPage("p")
		var late error
		copies.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			r.disturb(unreachable("a"))
			time.Sleep(20 * time.Second)
			_, late = framework.Apply(context.WithoutCancel(ctx), copies.configMaps.In(c), configMapOf(page, "late"))
			return pageUpdate{}, late
		}
		a := r.startWith("a", copies, pageOptions{Secondaries: framework.Secondaries(&copies.configMaps)})
		r.create(newPage("default", "p"))
		r.pass(time.Minute)
		if !errors.Is(late, framework.ErrStandby) {
			r.Errorf("a write after the lease was lost: %v", late)
		}
		if n := len(far.Objects("configmaps")); n != 0 {
			r.Errorf("%d ConfigMaps were written", n)
		}
		noError(r.T, a.stop())
	})
}

func TestG11ACreateOfUnknownFateInAnotherClusterIsFoundOutThere(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				far := newModel(t)
				r := newReaders()
				r.configMaps.Cluster, r.configMaps.Map = far.Config(), mapToPage("p")
				r.then = func(ctx context.Context, page *Page, c *pageContext) error {
					one, err := r.configMaps.Get(c)
					if err == nil && one == nil {
						_, err = framework.Create(ctx, r.configMaps.In(c), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-"}})
					}
					return err
				}
				options := shortRuns
				options.Secondaries = framework.Secondaries(&r.configMaps)
				defer m.operate(r, options)()
				far.Lag("configmaps", 15*time.Minute)
				far.Intercept(unanswered(fate, "create", "configmaps", true))
				m.createPage("p")
				time.Sleep(10 * time.Minute)
				if n := m.runs(); n < 2 {
					t.Errorf("%d runs: one has to follow the one that gave up", n)
				}
				far.Intercept(nil)
				time.Sleep(20 * time.Minute)
				if here, there := m.model.Objects("configmaps"), far.Objects("configmaps"); len(here) != 0 || len(there) != 1 {
					t.Errorf("there are %d here and %d there", len(here), len(there))
				}
				if m.op.Occupancy().Unresolved != 0 {
					t.Error("G16: a write is left unresolved")
				}
			})
		})
	}
}

// A backup is restored in one cluster: what was proven in the other stays proven.
func TestLiveReadsAreOfTheClusterOfTheSecondary(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
		far.model.Lag("configmaps", time.Hour)
		var there, missing error
		var live *corev1.ConfigMap
		r.then = func(ctx context.Context, _ *Page, c *pageContext) error {
			live, there = r.configMaps.Live(ctx, c, "default", "p")
			_, missing = r.configMaps.Live(ctx, c, "default", "q")
			return nil
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		if there != nil || live == nil || live.Data["data"] != "far" || !apierrors.IsNotFound(missing) {
			t.Errorf("read %v, %v; %v", live, there, missing)
		}
	})
}

func TestAnotherClusterThatFailsHoldsUpNoOthers(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
		r.configMaps.Map = mapToPage("p")
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			if page.Name != "p" {
				_, err := framework.Apply(ctx, c, configMapOf(page, "near"))
				return err
			}
			_, err := r.copied(ctx, page, c, "mine")
			return err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Concurrency: 2})()
		synctest.Wait()
		far.model.Intercept(func(apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Answer: &apierrors.NewGenericServerResponse(503, "patch", schema.GroupResource{}, "", "", 0, true).ErrStatus}
		})
		m.createPage("p")
		for _, name := range []string{"a", "b", "c"} {
			m.createPage(name)
		}
		time.Sleep(10 * time.Minute)
		if n := len(m.model.Objects("configmaps")); n != 3 {
			t.Errorf("G15: %d of 3 local ConfigMaps are there", n)
		}
		far.model.Intercept(nil)
		time.Sleep(time.Hour)
		if got := far.model.Objects("configmaps"); len(got) != 1 || got[0].Object["data"].(map[string]any)["data"] != "mine" {
			t.Errorf("there are %v", got)
		}
	})
}
