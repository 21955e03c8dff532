package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// real is an API server of its own for each life: a namespace of the sandbox, behind a proxy of its
// own. What happens there is seen by watches.
type real struct {
	sandbox *sandbox
	proxy   *faultproxy.Proxy
	client  *dynamic.DynamicClient
	ctx     context.Context //nolint:containedctx // of the watches
	kinds   []apimodel.Kind

	mu         sync.Mutex // guards below; a leaf
	namespaces []string
	seen       []change
	loud       int
}

// sandbox is the control plane that all tests of a process share. It ends with the process.
type sandbox struct {
	plane     *testenv.Plane
	resources []schema.GroupVersionResource // namespaced, that can be watched

	mu        sync.Mutex // guards below
	installed map[string]bool
	made      int
}

var sharedSandbox = sync.OnceValues(func() (*sandbox, error) {
	plane, err := testenv.StartSandbox(context.Background())
	if err != nil {
		return nil, fmt.Errorf("frameworktest: start the sandbox: %w", err)
	}
	return &sandbox{plane: plane, installed: map[string]bool{}}, nil
})

// install installs the definitions of a scenario that are not there yet.
func (b *sandbox) install(s *Scenario) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for folder := range strings.SplitSeq(s.CRDs, ",") {
		if folder = strings.TrimSpace(folder); folder == "" || b.installed[folder] {
			continue
		}
		if err := testenv.InstallCRDs(b.plane.Config, folder); err != nil {
			return err
		}
		b.installed[folder] = true
	}
	b.resources = nil
	return nil
}

// watchable returns the namespaced resources that can be watched.
func (b *sandbox) watchable() ([]schema.GroupVersionResource, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resources != nil {
		return b.resources, nil
	}
	d, err := discovery.NewDiscoveryClientForConfig(b.plane.Config)
	if err != nil {
		return nil, err
	}
	lists, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "watch") && !network.IsNoise(gv.Group, r.Name) && !strings.HasPrefix(r.Name, "endpoint") {
				b.resources = append(b.resources, gv.WithResource(r.Name))
			}
		}
	}
	return b.resources, nil
}

// newReal returns a life's part of the sandbox, until ctx ends.
func newReal(ctx context.Context, s *Scenario, kinds []apimodel.Kind) (*real, error) {
	shared, err := sharedSandbox()
	if err != nil {
		return nil, err
	}
	if err := shared.install(s); err != nil {
		return nil, err
	}
	r := &real{sandbox: shared, ctx: ctx, kinds: kinds}
	if r.client, err = dynamic.NewForConfig(r.config()); err != nil {
		return nil, fmt.Errorf("frameworktest: %w", err)
	}
	if r.proxy, err = faultproxy.Start(shared.plane.Config, faultproxy.Plan{}); err != nil {
		return nil, fmt.Errorf("frameworktest: %w", err)
	}
	return r, nil
}

func (r *real) config() *rest.Config {
	config := rest.CopyConfig(r.sandbox.plane.Config)
	config.QPS = -1 // tests wait for the API server, never for their own client
	return config
}

func (r *real) operators() *rest.Config { return r.proxy.Config() }

// close ends the proxy, and deletes what the life has left.
func (r *real) close() error {
	r.proxy.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New(r.config(), scheme.Scheme)
	if err != nil {
		return err
	}
	for _, name := range r.scope() {
		err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	}
	return err
}

func (r *real) scope() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.namespaces)
}

func (r *real) isNamespaced(ctx context.Context, c *client.Client, o framework.Object) bool {
	return c.IsNamespaced(ctx, o)
}

func (r *real) settle() {}

// namespace makes a namespace, and watches what happens in it.
func (r *real) namespace(ctx context.Context, _ string) (string, error) {
	r.sandbox.mu.Lock()
	r.sandbox.made++
	name := fmt.Sprintf("life-%d", r.sandbox.made)
	r.sandbox.mu.Unlock()
	c, err := client.New(r.config(), scheme.Scheme)
	if err != nil {
		return "", err
	}
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return "", err
	}
	r.mu.Lock()
	first := len(r.namespaces) == 0
	r.namespaces = append(r.namespaces, name)
	r.mu.Unlock()
	resources, err := r.sandbox.watchable()
	if err != nil {
		return "", err
	}
	for _, resource := range resources {
		if err := r.watch(r.client.Resource(resource).Namespace(name), resource.Resource); err != nil {
			return "", err
		}
	}
	for _, kind := range r.kinds {
		if kind.ClusterScoped && first {
			if err := r.watch(r.client.Resource(kind.GroupVersion().WithResource(kind.Plural)), kind.Plural); err != nil {
				return "", err
			}
		}
	}
	return name, nil
}

// watch records what happens to the objects of a resource from now on.
func (r *real) watch(of dynamic.ResourceInterface, plural string) error {
	list, err := of.List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("frameworktest: list %s: %w", plural, err)
	}
	from := list.GetResourceVersion()
	for i := range list.Items {
		r.see(plural, watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	go func() {
		for r.ctx.Err() == nil {
			w, err := of.Watch(r.ctx, metav1.ListOptions{ResourceVersion: from})
			if err != nil {
				network.Sleep(r.ctx, time.Second)
				continue
			}
			for event := range w.ResultChan() {
				if o, is := event.Object.(*unstructured.Unstructured); is && event.Type != watch.Error {
					from = o.GetResourceVersion()
					r.see(plural, event)
				}
			}
		}
	}()
	return nil
}

func (r *real) see(plural string, event watch.Event) {
	o, is := event.Object.(*unstructured.Unstructured)
	if !is || event.Type == watch.Bookmark {
		return
	}
	if isPlatforms(o) {
		return
	}
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	verb := map[watch.EventType]string{watch.Added: "create", watch.Modified: "change", watch.Deleted: "delete"}[event.Type]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, change{
		version: version, at: time.Now(), deleted: event.Type == watch.Deleted, resource: plural, what: verb, by: lastManager(o), object: o,
	})
	r.loud++
}

// isPlatforms reports whether an object is one that each namespace gets from Kubernetes. A world in
// virtual time has none.
func isPlatforms(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt" || o.GetKind() == "ServiceAccount" && o.GetName() == "default"
}

// lastManager is the field manager that wrote last.
func lastManager(o *unstructured.Unstructured) string {
	var newest time.Time
	name := ""
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && !m.Time.Time.Before(newest) {
			newest, name = m.Time.Time, m.Manager
		}
	}
	return name
}

func (r *real) changes() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.seen)
	slices.SortStableFunc(all, func(a, b change) int { return int(a.version - b.version) })
	return all
}

func (r *real) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loud
}

// version asks the server: what watches say comes later.
func (r *real) version() (int64, error) {
	list, err := r.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(r.ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("frameworktest: ask for the newest version: %w", err)
	}
	return strconv.ParseInt(list.GetResourceVersion(), 10, 64)
}

// isBusy reports whether there are orphans: Kubernetes' garbage collector may take half a minute to
// learn of a new kind.
func (r *real) isBusy() bool {
	live, uids := liveOf(r.changes()), map[types.UID]bool{}
	for _, c := range live {
		uids[c.object.GetUID()] = true
	}
	for _, c := range live {
		owners := c.object.GetOwnerReferences()
		isThere := func(owner metav1.OwnerReference) bool { return uids[owner.UID] }
		if len(owners) > 0 && !slices.ContainsFunc(owners, isThere) {
			return true
		}
	}
	return false
}

func (r *real) pass(d time.Duration) { time.Sleep(d) }

func (r *real) limits() limits {
	return limits{
		step: 100 * time.Millisecond, quiet: 5 * time.Second, longest: 2 * time.Minute, silence: 5 * time.Second, lags: []time.Duration{2 * time.Second},
		lease: 3 * time.Second, renew: 2 * time.Second, retry: 500 * time.Millisecond, cut: 6 * time.Second,
	}
}

// gapTime is how long watches are ended that begin.
const gapTime = 300 * time.Millisecond

// weather does what the proxy can: it cannot make the server's cache old.
func (r *real) weather(kind Point, _ bool) {
	if kind != Gap {
		return
	}
	rule := faultproxy.Rule{Name: "gap", Do: faultproxy.Action{Expire: &faultproxy.Expire{}}}
	if err := r.proxy.Set(rule); err != nil {
		panic(fmt.Sprintf("frameworktest: %v", err)) // the rule is valid
	}
	// Streams end when they are next looked at; later ones may live.
	time.AfterFunc(gapTime, func() { _ = r.proxy.Release(rule.Name) })
}

func (r *real) lag(d time.Duration, of ...string) {
	if len(of) == 0 {
		of = []string{"*"}
	}
	if err := r.proxy.Set(faultproxy.Lag("late", d, of...)); err != nil {
		panic(fmt.Sprintf("frameworktest: %v", err)) // the rule is valid
	}
}
