package plan_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	prefixedpodv1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webpagev1.AddToScheme, prefixedpodv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types do not fit into one scheme
		}
	}
	return scheme
}()

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a model of an API server, and an operator.
type world struct {
	*testing.T
	model    *apimodel.Model // nil for a real API server
	config   *rest.Config
	admin    *client.Client
	options  framework.OperatorOptions
	register func(*framework.Operator) error
}

func newWorld(t *testing.T, register ...func(*framework.Operator) error) *world {
	t.Helper()
	model, err := newModel()
	noError(t, err)
	w := &world{T: t, model: model, config: model.Config()}
	w.prepare(register...)
	return w
}

func newModel() (*apimodel.Model, error) {
	var kinds []apimodel.Kind
	for _, folder := range []string{testenv.WebPageCRDs(), testenv.Root() + "/samples/prefixedpod/config/crd/bases"} {
		more, err := apimodel.CustomResources(folder)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, more...)
	}
	return apimodel.New(apimodel.Options{Kinds: kinds, Defaults: true})
}

// clusterWith returns the configuration of a cluster with some objects.
func clusterWith(all ...client.Object) *rest.Config {
	model, err := newModel()
	if err != nil {
		panic(err)
	}
	admin, err := client.New(model.Config(), scheme)
	if err != nil {
		panic(err)
	}
	for _, o := range all {
		if err := admin.Create(context.Background(), o); err != nil {
			panic(err)
		}
	}
	return model.Config()
}

// prepare sets what a test of any server needs.
func (w *world) prepare(register ...func(*framework.Operator) error) {
	w.Helper()
	var err error
	w.admin, err = client.New(w.config, scheme)
	noError(w, err)
	w.options = framework.OperatorOptions{Scheme: scheme, Name: "planned", Logger: logr.Discard(), Grace: -1}
	w.register = func(op *framework.Operator) error {
		for _, register := range register {
			if err := register(op); err != nil {
				return err
			}
		}
		return nil
	}
}

func (w *world) create(all ...client.Object) {
	w.Helper()
	for _, o := range all {
		noError(w, w.admin.Create(w.Context(), o))
	}
}

// merge is a merge patch by somebody else.
func (w *world) merge(o client.Object, patch string) {
	w.Helper()
	noError(w, w.admin.Patch(w.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// operate runs the operator for some time.
func (w *world) operate(d time.Duration) {
	w.Helper()
	op, err := framework.NewOperator(w.config, w.options)
	noError(w, err)
	noError(w, w.register(op))
	ctx, stop := context.WithTimeout(w.Context(), d)
	defer stop()
	noError(w, op.Run(ctx))
}

// plan plans, and checks that nothing is committed.
func (w *world) plan() (*plan.Report, map[string]plan.Planned) {
	w.Helper()
	before := len(w.model.History())
	report, planned, err := plan.RunAndShow(w.Context(), w.config, w.options, w.register, plan.Options{})
	noError(w, err)
	if more := w.model.History()[before:]; len(more) > 0 {
		w.Fatalf("a plan committed %d changes, first %s of %s %s", len(more), more[0].Verb, more[0].Resource, more[0].Object.GetName())
	}
	return report, planned
}

// once lets each primary have the one run that a plan grants, and this time it writes.
type once struct {
	mu        sync.Mutex
	expected  []string
	due       map[string]bool // by controller and primary; false once it had its run
	started   int
	failures  []error
	withheld  []string
	completed chan struct{}
}

var _ planning.Plan = (*once)(nil)

func (o *once) Expects(controllers []string) { o.expected = controllers }

func (o *once) Starts(controller string, due []types.NamespacedName, _ func(types.NamespacedName) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range due {
		o.due[controller+" "+key.String()] = true
	}
	o.started++
	o.checkLocked()
}

func (o *once) checkLocked() {
	for _, owes := range o.due {
		if owes {
			return
		}
	}
	if o.started == len(o.expected) {
		close(o.completed)
	}
}

func (o *once) Begins(ctx context.Context, controller string, primary types.NamespacedName) (context.Context, planning.Ends) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := controller + " " + primary.String()
	if !o.due[name] {
		return ctx, nil
	}
	return ctx, func(failure error, again bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if failure != nil {
			o.failures = append(o.failures, fmt.Errorf("%s: %w", name, failure))
		}
		if failure != nil || !again {
			o.due[name] = false
			o.checkLocked()
		}
	}
}

func (o *once) Withhold(_ context.Context, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.withheld = append(o.withheld, what)
}

func (o *once) Refuse(context.Context, string) error { return errors.New("refused") }

// act lets each primary have one run, which writes. It returns what has changed, as plan does.
func (w *world) act() (map[string]plan.Planned, *once) {
	w.Helper()
	before := len(w.model.History())
	o := w.runOnce()
	return changesIn(w.model.History()[before:]), o
}

func (w *world) runOnce() *once {
	w.Helper()
	o := &once{due: map[string]bool{}, completed: make(chan struct{})}
	op, err := framework.NewOperator(w.config, w.options)
	noError(w, err)
	noError(w, w.register(op))
	ctx, stop := context.WithCancel(planning.With(w.Context(), o))
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	<-o.completed
	stop()
	noError(w, <-ended)
	return o
}

// changesIn sums up commits by object. Events do not count.
func changesIn(commits []apimodel.Commit) map[string]plan.Planned {
	all := map[string]plan.Planned{}
	for _, c := range commits {
		if c.Resource == "events" {
			continue
		}
		o := c.Object
		name := fmt.Sprint(o.GetAPIVersion(), " ", o.GetKind(), " ", o.GetNamespace(), "/", o.GetName())
		now, known := all[name]
		if !known && c.Previous != nil {
			now.Stored = c.Previous.Object
		}
		if now.Now = o.Object; c.Event == "DELETED" {
			now.Now = nil
		}
		all[name] = now
	}
	for name, c := range all {
		if c.Stored == nil && c.Now == nil || c.Stored != nil && c.Now != nil && plan.Same(c.Stored, c.Now) {
			delete(all, name)
		}
	}
	return all
}

// texts returns changes as sorted texts that can be compared: generated names and times are
// replaced.
func texts(changes map[string]plan.Planned) []string {
	var replace []string
	for _, c := range changes {
		if o := c.Now; o != nil && c.Stored == nil {
			metadata := o["metadata"].(map[string]any)
			if prefix, _ := metadata["generateName"].(string); prefix != "" {
				replace = append(replace, metadata["name"].(string), prefix+"<generated>")
			}
		}
	}
	var all []string
	for name, c := range changes {
		text := name + " gone"
		if c.Now != nil {
			text = name + " " + plan.Canonical(c.Now)
		}
		all = append(all, replaced(text, replace))
	}
	slices.Sort(all)
	return all
}

// chosen is what differs from one write to the next: times, and the addresses of Services.
var chosen = regexp.MustCompile(`"(lastTransitionTime|clusterIP)":"[^"]*"|"clusterIPs":\[[^]]*\]`)

func replaced(text string, pairs []string) string {
	return chosen.ReplaceAllString(strings.NewReplacer(pairs...).Replace(text), "")
}
