package workflows

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/await"
	"github.com/evenkeel/evenkeel/benchmarks/wire"
	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/internal/testenv"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// steady is what was counted of primaries that have converged.
type steady struct {
	// resync is of one further run of each primary.
	resync wire.Counts
	// edits is how many single fields somebody else has changed, and edited what was asked of the API
	// server to set them back.
	edits  int
	edited wire.Counts
	// restart is what a new operator has asked, restartRuns its runs, and changed the objects of which
	// the version changed by that.
	restart     wire.Counts
	restartRuns int64
	changed     []string
}

// site is an API server with pages, seen by an administrator.
type site struct {
	t         *testing.T
	config    *rest.Config
	admin     client.Client
	namespace string
	pages     int
}

// measureSteady lets five dependents of each of so many pages converge, and counts what comes
// after.
func measureSteady(t *testing.T, pages int) (found steady) {
	env, err := testenv.Start(testenv.WebPageCRDs())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, config: env.Config, namespace: "steady", pages: pages}
	s.admin = adminOf(t, env.Config)
	if err := work.Create(t.Context(), s.admin, s.namespace, pages); err != nil {
		t.Fatal(err)
	}
	count, config := s.counting()
	o := startOurs(t, config, s.namespace, five())
	await.NoError(s.t, "all pages have run", func() error { return await.AtLeast(o.runs.Load(), int64(pages)) })
	s.quiet(o, count)
	await.NoError(s.t, "all pages are ready", s.allReady)

	before, runs := count.Counts(), o.runs.Load()
	for i := range pages {
		o.triggers <- eventsource.Trigger{Primary: s.key(i)}
	}
	await.NoError(s.t, "all pages have run again", func() error { return await.AtLeast(o.runs.Load(), runs+int64(pages)) })
	s.quiet(o, count)
	found.resync = since(before, count.Counts())

	before = count.Counts()
	found.edits = s.edit(min(pages, 20))
	await.NoError(s.t, "all edits have caused runs", func() error { return await.AtLeast(int64(count.Counts().Writes-before.Writes), int64(found.edits)) })
	s.quiet(o, count)
	await.NoError(s.t, "all edits are undone", s.undone)
	found.edited = since(before, count.Counts())
	o.stop()

	versions := s.versions()
	count, config = s.counting()
	o = startOurs(t, config, s.namespace, five())
	await.NoError(s.t, "all pages have run", func() error { return await.AtLeast(o.runs.Load(), int64(pages)) })
	s.quiet(o, count)
	found.restart, found.restartRuns = count.Counts(), o.runs.Load()
	for object, version := range s.versions() {
		if versions[object] != version {
			found.changed = append(found.changed, object)
		}
	}
	return found
}

func adminOf(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	scheme, err := work.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	admin, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

// counting is a configuration of which the requests are counted.
func (s *site) counting() (*wire.Counter, *rest.Config) {
	count, config := wire.NewCounter(0), rest.CopyConfig(s.config)
	config.QPS = -1
	config.Wrap(count.Wrap)
	return count, config
}

func since(before, after wire.Counts) wire.Counts {
	return wire.Counts{
		Writes: after.Writes - before.Writes, Conflicts: after.Conflicts - before.Conflicts, Reads: after.Reads - before.Reads,
		Watches: after.Watches - before.Watches, Failures: after.Failures - before.Failures,
	}
}

func (s *site) key(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: fmt.Sprintf("page-%05d", i)}
}

func (s *site) page(i int) *page {
	p := &page{}
	if err := s.admin.Get(s.t.Context(), s.key(i), p); err != nil {
		s.t.Fatal(err)
	}
	return p
}

// quiet returns once nothing has been asked and nothing has run for a second.
func (s *site) quiet(o *ours, count *wire.Counter) {
	s.t.Helper()
	type state struct {
		wire.Counts
		runs int64
	}
	await.Quiet(s.t, func() state {
		now := state{count.Counts(), o.runs.Load()}
		now.Watches = 0 // they are begun anew from time to time
		return now
	})
}

func (s *site) allReady() error {
	ready := int64(0)
	for _, o := range s.listed(&v1.WebPageList{}) {
		if isReady(o.(*page)) {
			ready++
		}
	}
	return await.AtLeast(ready, int64(s.pages))
}

// edit has somebody else change one field of each dependent of the first pages.
func (s *site) edit(pages int) (edited int) {
	for i := range pages {
		p := s.page(i)
		for _, e := range edits {
			o := e.object(p).(client.Object)
			if err := s.admin.Patch(s.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(e.patch)), client.FieldOwner("somebody-else")); err != nil {
				s.t.Fatal(err)
			}
			edited++
		}
	}
	return edited
}

// undone tells what somebody else's edits still show in.
func (s *site) undone() error {
	var errs []error
	for _, o := range s.dependents() {
		wrong := false
		switch o := o.(type) {
		case *corev1.ConfigMap:
			wrong = o.Data["index.html"] == "defaced"
		case *corev1.Secret:
			wrong = string(o.Data["key"]) == "x"
		case *corev1.ServiceAccount:
			wrong = o.AutomountServiceAccountToken != nil && *o.AutomountServiceAccountToken
		case *corev1.Service:
			wrong = o.Spec.Selector["app"] == "other"
		case *appsv1.Deployment:
			wrong = *o.Spec.Replicas == 7
		}
		if wrong {
			errs = append(errs, fmt.Errorf("%s %s", kindOf(o), o.GetName()))
		}
	}
	return errors.Join(errs...)
}

// dependents are all objects of the five kinds.
func (s *site) dependents() (all []client.Object) {
	s.t.Helper()
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{},
	} {
		all = append(all, s.listed(list)...)
	}
	return all
}

func (s *site) listed(list client.ObjectList) (all []client.Object) {
	s.t.Helper()
	if err := s.admin.List(s.t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, item := range items {
		all = append(all, item.(client.Object))
	}
	return all
}

// versions are those of all pages and their dependents.
func (s *site) versions() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, o := range append(s.dependents(), s.listed(&v1.WebPageList{})...) {
		all[kindOf(o)+" "+o.GetName()] = o.GetResourceVersion()
	}
	return all
}

func TestWhatHasConvergedCostsNothing(t *testing.T) {
	const pages = 10
	found := measureSteady(t, pages)
	if found.resync.Writes != 0 || found.resync.Reads != 0 {
		t.Errorf("a further run of each of %d pages asked %+v", pages, found.resync)
	}
	if found.edited.Writes != found.edits || found.edited.Reads != 0 {
		t.Errorf("%d fields that somebody else changed took %+v", found.edits, found.edited)
	}
	if len(found.changed) != 0 {
		t.Errorf("a restart changed %q", found.changed)
	}
	if want := pages * len(edits); found.restart.Writes > want || found.restartRuns > pages {
		t.Errorf("a restart took %d runs and %+v; each object may be applied once to learn that it is as it should be", found.restartRuns, found.restart)
	}
}
