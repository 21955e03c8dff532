package interlocks

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/await"
	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = v1.WebPage
	pageContext = framework.Context[*page]
	guard       = interlock.Guard[*corev1.ConfigMap, *page]
	gate        = interlock.Gate[*corev1.ConfigMap, *page]
)

// workers is how many objects are worked on at a time, by operators and by the administrator.
const workers = 16

// uses is the annotation by which a page refers to its provider.
const uses = "example.com/uses"

func relation() interlock.Relation[*page] {
	return interlock.Relation[*page]{Name: "configs.example.com", Providers: func(p *page) []types.NamespacedName {
		return []types.NamespacedName{{Name: p.Annotations[uses]}}
	}}
}

// publishing implements pages by their status; without a gate it asks nobody.
type publishing struct{ gate *gate }

func (r publishing) Reconcile(ctx context.Context, p *page, c *pageContext) (framework.UpdateControl[*page], error) {
	if r.gate != nil {
		if grant, err := r.gate.Acquire(ctx, c); err != nil || !grant.Granted() {
			return framework.NoUpdate[*page](), err
		}
	}
	p.Status.URL = "http://" + p.Name
	return framework.PatchStatus(p), nil
}

func (r publishing) Cleanup(ctx context.Context, _ *page, c *pageContext) (framework.DeleteControl, error) {
	if r.gate == nil {
		return framework.RemoveFinalizer(), nil
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// server is an API server, seen by an administrator.
type server struct {
	t          *testing.T
	config     *rest.Config
	admin      client.Client
	namespaces int
}

func newServer(t *testing.T) *server {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	env, err := testenv.Start(testenv.WebPageCRDs())
	noError(t, err)
	t.Cleanup(func() { noError(t, env.Stop()) })
	s := &server{t: t, config: rest.CopyConfig(env.Config)}
	s.config.QPS = -1
	scheme, err := work.Scheme()
	noError(t, err)
	s.admin, err = client.New(s.config, client.Options{Scheme: scheme})
	noError(t, err)
	return s
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a namespace, with what is counted of its operators.
type site struct {
	*server
	namespace             string
	ofGuard, ofGate       account
	guarding, gating      *framework.Operator
	providers, dependents int
}

// newSite has so many providers.
func (s *server) newSite(providers int) *site {
	s.t.Helper()
	return s.newSiteAfter(func(*site) {}, providers)
}

// newSiteAfter lets something be done in the namespace before there are providers.
func (s *server) newSiteAfter(do func(*site), providers int) *site {
	s.t.Helper()
	s.namespaces++
	at := &site{server: s, namespace: fmt.Sprint("site-", s.namespaces), providers: providers}
	noError(s.t, s.admin.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}}))
	do(at)
	at.each(providers, func(ctx context.Context, i int) error { return s.admin.Create(ctx, at.provider(i)) })
	return at
}

func (s *site) provider(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprint("provider-", i)}}
}

// page is one of those that use the providers in turn.
func (s *site) page(i int) *page {
	return &page{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: fmt.Sprint("page-", i), Annotations: map[string]string{uses: fmt.Sprint("provider-", i%s.providers)},
		},
		Spec: v1.WebPageSpec{HTML: "<html/>"},
	}
}

// createPages makes so many.
func (s *site) createPages(pages int) {
	s.t.Helper()
	s.dependents = pages
	s.each(pages, func(ctx context.Context, i int) error { return s.admin.Create(ctx, s.page(i)) })
}

func (s *site) deletePages() {
	s.t.Helper()
	s.each(s.dependents, func(ctx context.Context, i int) error { return s.admin.Delete(ctx, s.page(i)) })
}

func (s *site) deleteProviders() {
	s.t.Helper()
	s.each(s.providers, func(ctx context.Context, i int) error { return s.admin.Delete(ctx, s.provider(i)) })
}

func (s *site) each(many int, do func(ctx context.Context, i int) error) {
	s.t.Helper()
	group, ctx := errgroup.WithContext(s.t.Context())
	group.SetLimit(workers)
	for i := range many {
		group.Go(func() error { return do(ctx, i) })
	}
	noError(s.t, group.Wait())
}

// startGuard runs a guard until the end of the test, or until stop is called, and waits until all
// providers are kept.
func (s *site) startGuard() (stop func()) {
	s.t.Helper()
	s.guarding = s.operator(&s.ofGuard, framework.LeaderElection{})
	g := &guard{Relation: relation(), Options: framework.ControllerOptions[*corev1.ConfigMap]{Name: "guard", KeepRecords: 1 << 16, Concurrency: workers}}
	noError(s.t, g.Register(s.guarding))
	stop = s.run(s.guarding)
	await.NoError(s.t, "all providers are kept", func() error {
		kept := 0
		for _, o := range s.listed(&corev1.ConfigMapList{}) {
			kept += len(o.GetFinalizers())
		}
		return await.AtLeast(kept, s.providers)
	})
	return stop
}

// startPages runs a controller of the pages until the end of the test, or until stop is called.
func (s *site) startPages(gated bool) (stop func()) {
	s.t.Helper()
	// As in a cluster it elects a leader: what comes after a restart goes on under the same lease, and
	// need not claim anew.
	s.gating = s.operator(&s.ofGate, framework.LeaderElection{Mode: framework.Always, Namespace: s.namespace, Name: "gate"})
	r, options := publishing{}, framework.ControllerOptions[*page]{Concurrency: workers, KeepRecords: 1 << 16}
	if gated {
		r.gate = &gate{Relation: relation()}
		options.Secondaries, options.Sources = r.gate.Secondaries(), r.gate.Sources()
	}
	noError(s.t, framework.Register(s.gating, r, options))
	return s.run(s.gating)
}

func (s *site) operator(a *account, election framework.LeaderElection) *framework.Operator {
	s.t.Helper()
	scheme, err := work.Scheme()
	noError(s.t, err)
	config := rest.CopyConfig(s.config)
	config.Wrap(a.wrap)
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Logger: logr.Discard(), Namespaces: []string{s.namespace}, LeaderElection: election,
	})
	noError(s.t, err)
	return op
}

func (s *site) run(op *framework.Operator) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// awaitPages waits until all are implemented.
func (s *site) awaitPages() {
	s.t.Helper()
	await.NoError(s.t, "all pages are implemented", func() error {
		implemented := 0
		for _, o := range s.listed(&v1.WebPageList{}) {
			if o.(*page).Status.URL != "" {
				implemented++
			}
		}
		return await.AtLeast(implemented, s.dependents)
	})
}

// awaitRuns waits until the controller of the pages has run so often since it began.
func (s *site) awaitRuns(runs int) {
	s.t.Helper()
	await.NoError(s.t, "all pages have run", func() error { return await.AtLeast(len(s.gating.Records("webpage")), runs) })
}

// awaitGone waits until there is none of a kind.
func (s *site) awaitGone(list client.ObjectList) {
	s.t.Helper()
	await.NoError(s.t, "all are gone", func() error {
		if left := len(s.listed(list)); left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
}

func (s *site) listed(list client.ObjectList) (all []client.Object) {
	s.t.Helper()
	noError(s.t, s.admin.List(s.t.Context(), list, client.InNamespace(s.namespace)))
	items, err := meta.ExtractList(list)
	noError(s.t, err)
	for _, item := range items {
		all = append(all, item.(client.Object))
	}
	return all
}

// quiet returns once nothing has been asked for a second.
func (s *site) quiet() {
	s.t.Helper()
	await.Quiet(s.t, func() int { return s.ofGuard.now().all() + s.ofGate.now().all() })
}
