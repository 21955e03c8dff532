package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// virtual is an operator of pages against a model of the API server, in a bubble of virtual time.
type virtual struct {
	t     *testing.T
	model *apimodel.Model
	admin *client.Client
	op    *framework.Operator
	// stop stops the operator, as the end of the test does, and returns what Run does.
	stop func() error

	mu sync.Mutex // guards below
	// sent are the operator's writes but events, as "verb resource name"; fault decides about its
	// requests.
	sent  []string
	fault func(apimodel.Request) apimodel.Fault
}

// inVirtualTime runs a test with an operator that runs until the test returns.
func inVirtualTime(t *testing.T, r framework.Reconciler[*Page], options pageOptions, test func(v *virtual)) {
	t.Helper()
	inVirtualTimeWith(t, framework.OperatorOptions{}, r, options, test)
}

// inVirtualTimeWith does so with options of the operator.
func inVirtualTimeWith(t *testing.T, o framework.OperatorOptions, r framework.Reconciler[*Page], options pageOptions, test func(v *virtual)) {
	t.Helper()
	options.KeepRecords = 1000
	inVirtualTimeOf(t, o, func(op *framework.Operator) error { return framework.Register(op, r, options) }, test)
}

// inVirtualTimeOf does so with the controllers that a function registers.
func inVirtualTimeOf(t *testing.T, o framework.OperatorOptions, register func(*framework.Operator) error, test func(v *virtual)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		v := &virtual{t: t, model: model}
		var err error
		v.admin, err = client.New(model.Config(), scheme)
		noError(t, err)
		model.Intercept(v.intercept)
		o.Scheme, o.Name = scheme, "virtual"
		if o.Grace == 0 {
			o.Grace = -1
		}
		if o.Logger == nil {
			o.Logger = quiet
		}
		v.op, err = framework.NewOperator(model.Config(), o)
		noError(t, err)
		noError(t, register(v.op))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		v.stop = sync.OnceValue(func() error { stop(); return <-done })
		go func() { done <- v.op.Run(running) }()
		synctest.Wait()
		test(v)
		noError(t, v.stop())
	})
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (v *virtual) intercept(r apimodel.Request) apimodel.Fault {
	if !strings.HasPrefix(r.UserAgent, "virtual ") {
		return apimodel.Fault{}
	}
	v.mu.Lock()
	if r.Resource != "events" && !slices.Contains([]string{"get", "list", "watch", "discovery"}, r.Verb) {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		name := r.Name
		if name == "" {
			name = nameIn(r.Body)
		}
		v.sent = append(v.sent, r.Verb+" "+resource+" "+name)
	}
	decide := v.fault
	v.mu.Unlock()
	if decide == nil {
		return apimodel.Fault{}
	}
	return decide(r)
}

// nameIn returns the name of the object in a request, in JSON or, as built-in kinds are sent,
// protobuf.
func nameIn(body []byte) string {
	if o, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		return o.(metav1.Object).GetName()
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &o); err != nil {
		return err.Error()
	}
	return o.Name
}

// disturb lets a function decide about the operator's requests from now on, nil for nothing.
func (v *virtual) disturb(decide func(apimodel.Request) apimodel.Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = decide
}

// writes returns the writes that the operator sent since the last call.
func (v *virtual) writes() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	sent := v.sent
	v.sent = nil
	return sent
}

// pass lets virtual time pass, and all come to rest.
func (v *virtual) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (v *virtual) create(o client.Object) {
	v.t.Helper()
	noError(v.t, v.admin.Create(v.t.Context(), o))
}

// patch merges into an object as somebody else.
func (v *virtual) patch(o client.Object, patch string) {
	v.t.Helper()
	noError(v.t, v.admin.Patch(v.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// page reads a page of the namespace as the server has it.
func (v *virtual) page(name string) *Page {
	v.t.Helper()
	p := &Page{}
	noError(v.t, v.admin.Get(v.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, p))
	return p
}

// commits lists what was done to objects of a resource, as "event name by manager".
func (v *virtual) commits(resource string) []string {
	var all []string
	for _, c := range v.model.History() {
		if c.Resource == resource {
			all = append(all, fmt.Sprintf("%s %s by %s", c.Event, c.Object.GetName(), c.Manager))
		}
	}
	return all
}

// atRest checks that the operator writes nothing more, and holds nothing any more (G12, G16).
func (v *virtual) atRest() {
	v.t.Helper()
	v.writes()
	v.pass(2 * time.Hour)
	if sent := v.writes(); len(sent) > 0 {
		v.t.Errorf("writes at rest: %q", sent)
	}
	now := v.op.Occupancy()
	for _, cache := range now.Caches {
		if cache.Ahead != 0 {
			v.t.Errorf("%d entries ahead in %s at rest", cache.Ahead, cache.Cache)
		}
	}
	if now.Edges != 0 || framework.Unresolved(v.op) != 0 {
		v.t.Errorf("%d edges and %d unresolved writes at rest", now.Edges, framework.Unresolved(v.op))
	}
}
