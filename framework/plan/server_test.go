package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/samples/webpage"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// TestOnServer plans on a real API server. etcd's history shows that nothing is committed, and one
// run of each primary then writes what was planned.
func TestOnServer(t *testing.T) {
	env, err := testenv.Start(testenv.WebPageCRDs())
	noError(t, err)
	defer func() { noError(t, env.Stop()) }()
	for name, life := range map[string]func(*serverWorld){"WebPage": planPages, "interlock": planInterlock} {
		t.Run(name, func(t *testing.T) {
			s := &serverWorld{world: &world{T: t, config: rest.CopyConfig(env.Config)}, env: env, namespace: "plan-" + strings.ToLower(name)}
			s.config.QPS = -1
			s.prepare()
			s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
			s.options.Namespaces = []string{s.namespace}
			life(s)
		})
	}
	t.Run("writes", func(t *testing.T) { compareWrites(t, env) })
}

// compareWrites is TestWritesOfAPlanAreAnsweredAsWritesAre in two namespaces of a real API server.
func compareWrites(t *testing.T, env *testenv.Env) {
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	w := &world{T: t, config: config}
	w.prepare()
	truth, err := env.Truth(t.Context())
	noError(t, err)
	first := rand.Uint64N(1_000_000)
	for seed := first; seed < first+depth.Of[uint64](10, 10, 300); seed++ {
		p := newPair(t, seed)
		p.configs, p.namespaces = [2]*rest.Config{config, config}, [2]string{fmt.Sprint("direct-", seed), fmt.Sprint("planned-", seed)}
		for _, name := range p.namespaces {
			w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		p.committed = func() (n int) {
			noError(t, truth.WaitNow(t.Context()))
			for _, e := range truth.Events() {
				if strings.Contains(e.Key, "/"+p.namespaces[1]+"/") {
					n++
				}
			}
			return n
		}
		p.live()
	}
	noError(t, truth.Stop())
}

// serverWorld is a namespace of a real API server.
type serverWorld struct {
	*world
	env       *testenv.Env
	namespace string
}

func (s *serverWorld) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// useRightsOf gives the operator the rights that a sample has in a cluster, and no more.
func (s *serverWorld) useRightsOf(sample string) {
	s.Helper()
	for _, name := range []string{"namespace", "service_account", "role"} {
		content, err := os.ReadFile(filepath.Join(testenv.Root(), "samples", sample, "config", "rbac", name+".yaml"))
		noError(s, err)
		for _, document := range strings.Split(string(content), "\n---\n") {
			var o unstructured.Unstructured
			noError(s, yaml.Unmarshal([]byte(document), &o.Object))
			s.create(&o)
		}
	}
	operator := sample + "-operator"
	s.config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + operator + ":" + operator, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
}

// planAndAct plans, checks that nothing was committed, runs the operator, and compares.
func (s *serverWorld) planAndAct() *plan.Report {
	s.Helper()
	ctx := s.Context()
	truth, err := s.env.Truth(ctx)
	noError(s, err)
	noError(s, truth.WaitNow(ctx))
	before := len(truth.Events())
	report, planned, err := plan.RunAndShow(ctx, s.config, s.options, s.register, plan.Options{Timeout: time.Minute})
	noError(s, err)
	noError(s, truth.WaitNow(ctx))
	for _, e := range truth.Events()[before:] {
		if strings.Contains(e.Key, "/"+s.namespace+"/") {
			s.Errorf("a plan has committed %s", e)
		}
	}
	noError(s, truth.Stop())
	was := s.objects()
	acted := s.runOnce()
	if want, got := texts(planned), texts(changesBetween(was, s.objects())); !slices.Equal(want, got) {
		s.Errorf("planned and written differ:\n%s", differences(want, got))
	}
	if len(report.Failures) != len(acted.failures) {
		s.Errorf("failures: %v and %v", report.Failures, acted.failures)
	}
	s.keepsSecrets(report)
	return report
}

// objects returns everything in the namespace that the operators write.
func (s *serverWorld) objects() map[string]map[string]any {
	s.Helper()
	c, err := dynamic.NewForConfig(s.env.Config)
	noError(s, err)
	all := map[string]map[string]any{}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
		webpagev1.GroupVersion.WithResource("webpages"),
	} {
		list, err := c.Resource(resource).Namespace(s.namespace).List(s.Context(), metav1.ListOptions{})
		noError(s, err)
		for _, o := range list.Items {
			all[fmt.Sprint(o.GetAPIVersion(), " ", o.GetKind(), " ", o.GetNamespace(), "/", o.GetName())] = o.Object
		}
	}
	return all
}

func changesBetween(was, is map[string]map[string]any) map[string]plan.Planned {
	all := map[string]plan.Planned{}
	for name, o := range was {
		if now := is[name]; now == nil || !plan.Same(o, now) {
			all[name] = plan.Planned{Stored: o, Now: now}
		}
	}
	for name, o := range is {
		if was[name] == nil {
			all[name] = plan.Planned{Now: o}
		}
	}
	return all
}

// mustChange checks how many objects a plan would change.
func (s *serverWorld) mustChange(report *plan.Report, n int) {
	s.Helper()
	code := 2
	if n == 0 {
		code = 0
	}
	if len(report.Changes) != n || report.ExitCode() != code {
		s.Errorf("%d changes and exit code %d, not %d and %d:\n%s", len(report.Changes), report.ExitCode(), n, code, report)
	}
}

func planPages(s *serverWorld) {
	s.register = webpage.Register
	s.useRightsOf("webpage")
	first := &webpagev1.WebPage{ObjectMeta: s.named("first"), Spec: webpagev1.WebPageSpec{HTML: "<p>first</p>", Exposed: true}}
	second := &webpagev1.WebPage{ObjectMeta: s.named("second"), Spec: webpagev1.WebPageSpec{HTML: "<p>second</p>"}}
	s.create(first, second)
	s.mustChange(s.planAndAct(), 9)
	s.mustChange(s.planAndAct(), 0)
	s.merge(first, `{"spec":{"html":"<p>changed</p>","exposed":false}}`)
	s.merge(&corev1.Service{ObjectMeta: s.named("second")}, `{"spec":{"selector":{"app.kubernetes.io/instance":"other"}}}`)
	noError(s, s.admin.Delete(s.Context(), &corev1.ConfigMap{ObjectMeta: s.named("second")}))
	s.mustChange(s.planAndAct(), 6)
}

type (
	app      = corev1.ConfigMap // the database that it uses is in its data
	database = corev1.Secret
)

// implementer makes a Lease for each app whose database it may use.
type implementer struct {
	gate   interlock.Gate[*database, *app]
	leases framework.Secondary[*coordinationv1.Lease]
}

func databaseOf(a *app) (keys []types.NamespacedName) {
	if name := a.Data["database"]; name != "" {
		keys = append(keys, types.NamespacedName{Namespace: a.Namespace, Name: name})
	}
	return keys
}

func (r *implementer) Reconcile(ctx context.Context, a *app, c *framework.Context[*app]) (none framework.UpdateControl[*app], err error) {
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil || !grant.Granted() {
		return none, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	if _, err := framework.Apply(ctx, c, lease, framework.OwnedByPrimary()); err != nil {
		return none, err
	}
	return none, r.gate.Release(ctx, c)
}

func (r *implementer) Cleanup(ctx context.Context, a *app, c *framework.Context[*app]) (framework.DeleteControl, error) {
	lease, err := r.leases.GetNamed(c, a.Namespace, a.Name)
	if err == nil && lease != nil {
		err = framework.Delete(ctx, c, lease)
	}
	if err != nil {
		return framework.KeepFinalizer(), err
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

func registerInterlock(op *framework.Operator) error {
	relation := interlock.Relation[*app]{Name: "databases.example.com", Providers: databaseOf}
	guard := &interlock.Guard[*database, *app]{Relation: relation}
	if err := guard.Register(op); err != nil {
		return err
	}
	r := &implementer{gate: interlock.Gate[*database, *app]{Relation: relation}}
	return framework.Register(op, r, framework.ControllerOptions[*app]{
		Name: "implementer", LabelSelector: "app=true", Secondaries: append(r.gate.Secondaries(), &r.leases), Sources: r.gate.Sources(),
	})
}

func planInterlock(s *serverWorld) {
	s.register = registerInterlock
	// The instance that writes the claims is named after the lease.
	s.options.LeaderElection = framework.LeaderElection{Mode: framework.Always, Namespace: s.namespace}
	db := &database{ObjectMeta: s.named("db"), StringData: map[string]string{"password": secretValue}}
	s.create(db)
	for _, name := range []string{"one", "two"} {
		a := &app{ObjectMeta: s.named(name), Data: map[string]string{"database": "db"}}
		a.Labels = map[string]string{"app": "true"}
		s.create(a)
	}
	s.mustChange(s.planAndAct(), 5)
	s.mustChange(s.planAndAct(), 0)
	noError(s, s.admin.Delete(s.Context(), db)) // it stays while it is used
	noError(s, s.admin.Delete(s.Context(), &app{ObjectMeta: s.named("one")}))
	s.mustChange(s.planAndAct(), 2)
	s.mustChange(s.planAndAct(), 0)
}
