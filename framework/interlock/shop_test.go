package interlock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

func TestMain(m *testing.M) { os.Exit(apimodel.RunTests(m)) }

// databases is the relation of the tests.
var databases = interlock.Relation[*App]{Name: "databases.shop.example.com", Providers: databasesOf}

// databasesOf are those that an app names, in its own namespace or, as NAMESPACE/NAME, in another.
func databasesOf(app *App) []types.NamespacedName {
	var names []types.NamespacedName
	for _, text := range app.Spec.Databases {
		namespace, name, qualified := strings.Cut(text, "/")
		if !qualified {
			namespace, name = "", text
		}
		names = append(names, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return names
}

// implementing is a controller of apps, which implements them in memory and shows how far they are.
type implementing struct {
	gate interlock.Gate[*Database, *App]
	shop *shop
	// unreleased forgets to let go.
	unreleased bool
}

func (r *implementing) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil {
		return framework.NoUpdate[*App](), err
	}
	if !grant.Granted() {
		grant.Mark(&app.Status.Conditions, app.Generation)
		return framework.PatchStatus(app), nil
	}
	r.shop.implement(app)
	conditions.MarkReady(&app.Status.Conditions, app.Generation, "Implemented", "")
	return framework.PatchStatus(app), r.gate.Release(ctx, c)
}

func (r *implementing) Cleanup(ctx context.Context, app *App, c *framework.Context[*App]) (framework.DeleteControl, error) {
	r.shop.tearDown(app)
	if r.unreleased {
		return framework.RemoveFinalizer(), nil
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// shop is a world of apps and databases in a bubble of virtual time, with an operator for each
// side.
type shop struct {
	*testing.T
	model  *apimodel.Model
	admin  *client.Client
	apps   *side
	owners *side // of databases

	mu sync.Mutex // guards below
	// on are the UIDs of the databases that apps are implemented on, by the UID of the app.
	on    map[types.UID][]types.UID
	sent  []string
	fault func(apimodel.Request) apimodel.Fault
}

// side is one of the operators.
type side struct {
	op       *framework.Operator
	register func(*framework.Operator) error
	elected  bool // by a lease, so whoever is started next is the same instance
	stop     func()
}

// openShop runs a test with both sides running.
func openShop(t *testing.T, test func(s *shop)) {
	t.Helper()
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &implementing{gate: interlock.Gate[*Database, *App]{Relation: databases}, shop: s}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources(), KeepRecords: 1000})
	}, test)
}

// withGate is openShopOf with the controller of apps that a function makes.
func openShopOf(t *testing.T, apps func(*shop, *framework.Operator) error, test func(s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model, err := apimodel.New(apimodel.Options{Kinds: shopKinds})
		noError(t, err)
		s := &shop{T: t, model: model, on: map[types.UID][]types.UID{}}
		s.admin, err = client.New(model.Config(), scheme)
		noError(t, err)
		model.Intercept(s.intercept)
		s.apps = &side{register: func(op *framework.Operator) error { return apps(s, op) }}
		s.owners = &side{register: func(op *framework.Operator) error {
			return (&interlock.Guard[*Database, *App]{Relation: databases}).Register(op)
		}}
		s.start(s.apps, "apps")
		s.start(s.owners, "owners")
		test(s)
		s.judge()
		s.apps.stop()
		s.owners.stop()
	})
}

// start creates an operator and runs it.
func (s *shop) start(side *side, name string) {
	s.Helper()
	var err error
	options := framework.OperatorOptions{Logger: quiet, Scheme: scheme, Name: name, Grace: -1}
	if side.elected {
		options.LeaderElection = framework.LeaderElection{Mode: framework.Always, Namespace: "default", Name: name}
	}
	side.op, err = framework.NewOperator(s.model.Config(), options)
	noError(s.T, err)
	noError(s.T, side.register(side.op))
	running, stop := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- side.op.Run(running) }()
	side.stop = func() {
		stop()
		noError(s.T, <-done)
	}
	synctest.Wait()
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intercept records the operators' requests, except those about events and watches.
func (s *shop) intercept(r apimodel.Request) apimodel.Fault {
	who, _, _ := strings.Cut(r.UserAgent, " ")
	if r.Resource == "events" || r.Verb == "watch" || r.Verb == "discovery" || (who != "apps" && who != "owners") {
		return apimodel.Fault{}
	}
	s.judge()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", who, r.Verb, strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/"), r.Name)))
	if s.fault == nil {
		return apimodel.Fault{}
	}
	return s.fault(r)
}

// requests are those since the last call.
func (s *shop) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// count returns how many of some requests are of a kind.
func count(requests []string, kind string) (n int) {
	for _, r := range requests {
		if strings.HasPrefix(r, kind) {
			n++
		}
	}
	return n
}

// disturb lets a function decide about the operators' requests.
func (s *shop) disturb(decide func(apimodel.Request) apimodel.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = decide
}

// pass lets virtual time pass, and all come to rest.
func (s *shop) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *shop) database(name string) *Database {
	s.Helper()
	return s.databaseIn("default", name)
}

func (s *shop) databaseIn(namespace, name string) *Database {
	s.Helper()
	d := &Database{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	noError(s.T, s.admin.Create(s.Context(), d))
	return d
}

func (s *shop) app(name string, databases ...string) *App {
	s.Helper()
	a := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	a.Spec.Databases = databases
	noError(s.T, s.admin.Create(s.Context(), a))
	return a
}

// refer changes what an app refers to.
func (s *shop) refer(a *App, databases ...string) {
	s.Helper()
	live := a.DeepCopyObject().(*App)
	noError(s.T, s.admin.Get(s.Context(), client.ObjectKeyFromObject(a), live))
	live.Spec.Databases = databases
	noError(s.T, s.admin.Update(s.Context(), live))
}

func (s *shop) delete(o client.Object) {
	s.Helper()
	noError(s.T, s.admin.Delete(s.Context(), o))
}

// exists reports whether that very object exists.
func (s *shop) exists(o client.Object) bool {
	for _, plural := range []string{"apps", "databases", "regions", "configmaps", "deployments", "pods"} {
		for _, live := range s.model.Objects(plural) {
			if live.GetUID() == o.GetUID() {
				return true
			}
		}
	}
	return false
}

// expect checks which objects are there, and which apps are implemented.
func (s *shop) expect(there, gone []client.Object, implemented ...*App) {
	s.Helper()
	for _, o := range there {
		if !s.exists(o) {
			s.Errorf("%s is gone", o.GetName())
		}
	}
	for _, o := range gone {
		if s.exists(o) {
			s.Errorf("%s is there", o.GetName())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.on) != len(implemented) {
		s.Errorf("%d apps are implemented, want %d", len(s.on), len(implemented))
	}
	for _, a := range implemented {
		if s.on[a.UID] == nil {
			s.Errorf("%s is not implemented", a.Name)
		}
	}
}

// live reads an app as it is.
func (s *shop) live(a *App) *App {
	s.Helper()
	live := &App{}
	noError(s.T, s.admin.Get(s.Context(), client.ObjectKeyFromObject(a), live))
	return live
}

// condition is the reason of an app's condition, empty if it has none of the type.
func (s *shop) condition(a *App, kind string) string {
	s.Helper()
	for _, c := range s.live(a).Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

// implement implements an app on the databases that it refers to, and on no others: they must exist
// (G10).
func (s *shop) implement(a *App) {
	uids := []types.UID{}
	for _, key := range databasesOf(a) {
		for _, live := range s.model.Objects("databases") {
			if live.GetName() == key.Name {
				uids = append(uids, live.GetUID())
			}
		}
	}
	if len(uids) != len(a.Spec.Databases) {
		s.Errorf("G10: %s is implemented on %v, of which not all are there", a.Name, a.Spec.Databases)
	}
	s.mu.Lock()
	s.on[a.UID] = uids
	s.mu.Unlock()
	s.judge()
}

func (s *shop) tearDown(a *App) {
	s.judge()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.on, a.UID)
}

// judge checks that all that is implemented on is there (G10).
func (s *shop) judge() {
	there := map[types.UID]bool{}
	for _, live := range s.model.Objects("databases") {
		there[live.GetUID()] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for app, uids := range s.on {
		for _, uid := range uids {
			if !there[uid] {
				s.Errorf("G10: app %s is implemented on database %s, which is gone", app, uid)
			}
		}
	}
}
