package framework_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// replicas are instances of one operator, by name, that elect a leader in virtual time.
type replicas struct {
	*testing.T
	model *apimodel.Model
	admin *client.Client

	mu    sync.Mutex // guards below
	fault func(instance string, r apimodel.Request) apimodel.Fault
}

// replica is one of them.
type replica struct {
	*framework.Operator
	name string
	stop func() error
}

// withReplicas runs a test over a model; what it started must have been stopped.
func withReplicas(t *testing.T, test func(r *replicas)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &replicas{T: t, model: newModel(t)}
		var err error
		r.admin, err = client.New(r.model.Config(), scheme)
		noError(t, err)
		r.model.Intercept(func(request apimodel.Request) apimodel.Fault {
			instance, _, _ := strings.Cut(request.UserAgent, " ")
			r.mu.Lock()
			decide := r.fault
			r.mu.Unlock()
			if decide == nil {
				return apimodel.Fault{}
			}
			return decide(instance, request)
		})
		test(r)
	})
}

// disturb lets a function decide about the requests of instances from now on, nil for nothing.
func (r *replicas) disturb(decide func(instance string, r apimodel.Request) apimodel.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = decide
}

// start starts an instance.
func (r *replicas) start(name string, reconciler framework.Reconciler[*Page], change ...func(*framework.OperatorOptions)) *replica {
	r.Helper()
	return r.startWith(name, reconciler, pageOptions{}, change...)
}

func (r *replicas) startWith(name string, reconciler framework.Reconciler[*Page], controller pageOptions, change ...func(*framework.OperatorOptions)) *replica {
	r.Helper()
	return r.startOn(r.model.Config(), name, reconciler, controller, change...)
}

// startOn starts an instance with a client configuration of its own.
func (r *replicas) startOn(config *rest.Config, name string, reconciler framework.Reconciler[*Page], controller pageOptions, change ...func(*framework.OperatorOptions)) *replica {
	r.Helper()
	options := framework.OperatorOptions{
		Scheme: scheme, Logger: quiet, Name: name, Grace: -1,
		LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "default", Name: "pages", Identity: name},
	}
	for _, f := range change {
		f(&options)
	}
	controller.KeepRecords, controller.FieldManager = 100, "pages"
	op, err := framework.NewOperator(config, options)
	noError(r.T, err)
	noError(r.T, framework.Register(op, reconciler, controller))
	running, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	synctest.Wait()
	return &replica{Operator: op, name: name, stop: sync.OnceValue(func() error { cancel(); return <-done })}
}

// pass lets virtual time pass, and all come to rest.
func (r *replicas) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *replicas) create(o client.Object) {
	r.Helper()
	noError(r.T, r.admin.Create(r.Context(), o))
}

// touch makes a page due for whoever leads.
func (r *replicas) touch(name, html string) {
	r.Helper()
	page := newPage("default", name)
	noError(r.T, r.admin.Patch(r.Context(), page, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"html":"`+html+`"}}`))))
}

// lead checks who leads.
func (r *replicas) lead(want string, all ...*replica) {
	r.Helper()
	for _, one := range all {
		if one.Leading() != (one.name == want) {
			r.Errorf("%s leads: %v, but %q is to lead", one.name, one.Leading(), want)
		}
		if err := one.Ready(); err != nil {
			r.Errorf("%s: %v", one.name, err)
		}
	}
}

// instance is who made a commit.
func instance(c apimodel.Commit) string {
	name, _, _ := strings.Cut(c.UserAgent, " ")
	return name
}

// onlyHoldersWrote checks against all that was written that whoever wrote ConfigMaps held the lease
// then (G06), and returns how often each wrote.
func (r *replicas) onlyHoldersWrote() map[string]int {
	r.Helper()
	holder, wrote := "", map[string]int{}
	for _, c := range r.model.History() {
		switch c.Resource {
		case "leases":
			spec, _ := c.Object.Object["spec"].(map[string]any)
			holder, _ = spec["holderIdentity"].(string)
		case "configmaps":
			if by := instance(c); by != holder {
				r.Errorf("%s wrote version %d at %v while %q held the lease", by, c.Version, c.At, holder)
			}
			wrote[instance(c)]++
		}
	}
	return wrote
}

// wrote are the instances that wrote a ConfigMap, in order, without repetitions.
func (r *replicas) wrote(name string) string {
	var by []string
	for _, c := range r.model.History() {
		if c.Resource == "configmaps" && c.Object.GetName() == name && (len(by) == 0 || by[len(by)-1] != instance(c)) {
			by = append(by, instance(c))
		}
	}
	return strings.Join(by, " ")
}

// copies is a reconciler that writes a page's HTML into a ConfigMap.
func copies() *pages {
	return &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML))
		return pageUpdate{}, err
	}}
}

// unreachable loses all requests of an instance but those for discovery, which client-go repeats
// patiently.
func unreachable(lost string) func(string, apimodel.Request) apimodel.Fault {
	return func(instance string, request apimodel.Request) apimodel.Fault {
		return apimodel.Fault{Drop: instance == lost && request.Verb != "discovery"}
	}
}
