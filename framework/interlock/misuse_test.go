package interlock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
)

// noting is a controller of apps that records how acquiring and releasing end.
type noting struct {
	gate interlock.Gate[*Database, *App]

	mu               sync.Mutex // guards below
	acquire, release string
	denied           string
}

func (r *noting) Reconcile(ctx context.Context, _ *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, acquire := r.gate.Acquire(ctx, c)
	release := r.gate.Release(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquire, r.release, r.denied = fmt.Sprint(acquire), fmt.Sprint(release), grant.String()
	return framework.NoUpdate[*App](), nil
}

func (r *noting) Cleanup(context.Context, *App, *framework.Context[*App]) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

// TestAGateThatCannotBeSaysSo: without a workflow, too, where nothing is checked at registration.
// It writes nothing.
func TestAGateThatCannotBeSaysSo(t *testing.T) {
	for want, relation := range map[string]interlock.Relation[*App]{
		`interlock: Relation.Name "databases": must be a DNS subdomain of at most 128 bytes, such as databases.example.com`: {Name: "databases", Providers: databasesOf},
		`interlock: relation "databases.example.com": Providers must not be nil`:                                            {Name: "databases.example.com"},
		`interlock: relation "databases.example.com": Select is only for Unclaimed: claims select by themselves`: {
			Name: "databases.example.com", Providers: databasesOf, Select: func(types.NamespacedName) framework.Selection { return framework.Selection{} },
		},
	} {
		r := &noting{gate: interlock.Gate[*Database, *App]{Relation: relation}}
		openShopOf(t, func(s *shop, op *framework.Operator) error {
			return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
		}, func(s *shop) {
			s.database("p")
			d := s.app("d", "p")
			s.pass(time.Second)
			if r.acquire != want || r.release != want {
				t.Errorf("acquire: %s\nrelease: %s\nwant     %s", r.acquire, r.release, want)
			}
			if left := s.live(d); len(left.Labels)+len(left.Annotations) != 0 {
				t.Errorf("written: %v %v", left.Labels, left.Annotations)
			}
		})
	}
}

// TestADenialSaysWhichFinalizerIsMissing: where the sides name the relation differently, or nothing
// guards, that is all there is to see.
func TestADenialSaysWhichFinalizerIsMissing(t *testing.T) {
	relation := interlock.Relation[*App]{Name: "others.shop.example.com", Providers: databasesOf}
	for want, gate := range map[string]interlock.Gate[*Database, *App]{
		"default/one: ProviderUnprotected: it does not have the finalizer others.shop.example.com/interlock, which its guard adds; default/two: ProviderAbsent": {Relation: relation},
		"default/one: ProviderUnprotected: it does not have the finalizer a.b/c; default/two: ProviderAbsent":                                                   {Relation: relation, Finalizer: "a.b/c"},
	} {
		r := &noting{gate: gate}
		openShopOf(t, func(s *shop, op *framework.Operator) error {
			return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
		}, func(s *shop) {
			s.database("one")
			s.app("d", "one", "two")
			s.pass(time.Second)
			if r.acquire != "<nil>" || r.denied != want {
				t.Errorf("acquire: %s\ndenied: %s\nwant    %s", r.acquire, r.denied, want)
			}
		})
	}
}

// TestAReferenceThatCanNameNothingIsDeniedAtOnce, and so is one that no claim can name: it is
// neither claimed nor requested, and blocks no other.
func TestAReferenceThatCanNameNothingIsDeniedAtOnce(t *testing.T) {
	for reference, want := range map[string]string{
		"default/other/two": "default/other/two: ProviderAbsent: nothing can have that name: it may not contain '/'",
		"one,p":             "default/one,p: ProviderUnclaimable: no claim can name it: it must not contain ','",
		"..":                "default/..: ProviderAbsent: nothing can have that name: it may not be '..'",
		"a%b/p":             "a%b/p: ProviderAbsent: nothing can have that name: it may not contain '%'",
		"a,b/p":             "a,b/p: ProviderUnclaimable: no claim can name it: it must not contain ','",
	} {
		r := &noting{gate: interlock.Gate[*Database, *App]{Relation: databases}}
		openShopOf(t, func(s *shop, op *framework.Operator) error {
			return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
		}, func(s *shop) {
			expect := func(denied string) {
				t.Helper()
				if r.acquire != "<nil>" || r.release != "<nil>" || r.denied != denied {
					t.Errorf("acquire: %s\nrelease: %s\ndenied: %s\nwant    %s", r.acquire, r.release, r.denied, denied)
				}
			}
			p := types.NamespacedName{Namespace: "default", Name: "p"}
			s.database("p")
			s.pass(time.Second)
			s.requests()
			d := s.app("d", reference)
			s.pass(time.Second)
			expect(want)
			if sent := s.requests(); count(sent, "apps: apply") != 0 || count(sent, "apps: get") != 0 {
				t.Errorf("%s: it takes no request: %q", reference, sent)
			}
			s.refer(d, reference, "p")
			s.pass(time.Second)
			expect(want)
			if claims := databases.Claims(s.live(d)); !slices.Equal(claims, []types.NamespacedName{p}) || s.live(d).Annotations[databases.Annotation()] != p.String() {
				t.Errorf("%s: beside p it claims %v", reference, s.live(d).Annotations)
			}
			s.refer(d, reference)
			s.pass(time.Second)
			expect(want)
			if left := s.live(d); len(databases.Claims(left)) != 0 {
				t.Errorf("%s: with p it leaves %v", reference, left.Annotations)
			}
			s.refer(d, reference, "q", "")
			s.pass(time.Second)
			if !strings.Contains(r.denied, "default/q: ProviderAbsent") || !strings.Contains(r.denied, want) {
				t.Errorf("%s: denied %s", reference, r.denied)
			}
		})
	}
}

// TestWhatIsUnclaimedMayHaveNamesThatNoClaimCanHave, as there are kinds with such names.
func TestWhatIsUnclaimedMayHaveNamesThatNoClaimCanHave(t *testing.T) {
	relation := interlock.Relation[*App]{Name: "unclaimed.shop.example.com", Providers: databasesOf, Unclaimed: true}
	r := &noting{gate: interlock.Gate[*Database, *App]{Relation: relation}}
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		s.app("d", "a,b", "c/d/e")
		s.pass(time.Second)
		if want := "c/d/e: ProviderAbsent: nothing can have that name: it may not contain '/'; default/a,b: ProviderAbsent"; r.denied != want {
			t.Errorf("denied: %s\nwant    %s", r.denied, want)
		}
	})
}

// TestAGateNamesWhatIsNotRegistered, before it writes anything.
func TestAGateNamesWhatIsNotRegistered(t *testing.T) {
	for _, secondaries := range []bool{false, true} {
		r := &noting{gate: interlock.Gate[*Database, *App]{Relation: databases}}
		want := `what Gate.Secondaries returns is not registered with the controller: framework: controller "app" does not read this`
		var options framework.ControllerOptions[*App]
		if secondaries {
			options.Secondaries, want = r.gate.Secondaries(), "what Gate.Sources returns is not registered with the controller: "
		}
		openShopOf(t, func(s *shop, op *framework.Operator) error { return framework.Register(op, r, options) }, func(s *shop) {
			s.database("p")
			d := s.app("d", "p")
			s.pass(time.Second)
			if !strings.HasPrefix(r.acquire, `interlock: relation "databases.shop.example.com": acquire: `+want) {
				t.Errorf("acquire: %s\nwant     %s", r.acquire, want)
			}
			if left := s.live(d); len(left.Labels)+len(left.Annotations) != 0 {
				t.Errorf("written: %v %v", left.Labels, left.Annotations)
			}
		})
	}
}

// TestAGuardIsRegisteredOnce, and says so; what failed may be mended and tried again.
func TestAGuardIsRegisteredOnce(t *testing.T) {
	op, err := framework.NewOperator(&rest.Config{Host: "http://127.0.0.1:1"}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	noError(t, err)
	guard := &interlock.Guard[*Database, *App]{Relation: databases}
	guard.Options.Name = "Not A Name"
	if err := guard.Register(op); err == nil {
		t.Error("it is registered with a name that is none")
	}
	guard.Options.Name = ""
	noError(t, guard.Register(op))
	if err := guard.Register(op); fmt.Sprint(err) != `interlock: guard of relation "databases.shop.example.com": it is registered already` {
		t.Errorf("the second time: %v", err)
	}
}
