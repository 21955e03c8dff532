package interlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	dependents "github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// The implementation behind a gate is gone before the provider: workloads with their Pods, and
// objects that have lost their owner.

type appContext = framework.Context[*App]

// behind is a controller of apps. A function makes the dependents that implement them, each of
// which depends on "gate".
type behind struct {
	gate interlock.Gate[*Database, *App]
}

func (r *behind) Reconcile(_ context.Context, app *App, c *appContext) (framework.UpdateControl[*App], error) {
	conditions.MarkWorkflow(&app.Status.Conditions, app.Generation, c.WorkflowResult())
	return framework.PatchStatus(app), nil
}

// openShopBehind runs a test with the implementation behind a gate, and a settling node that
// depends on the named nodes.
func openShopBehind(t *testing.T, implementation func() []framework.Dependent[*App], settles []string, test func(s *shop)) {
	t.Helper()
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &behind{gate: interlock.Gate[*Database, *App]{Relation: databases}}
		all := append([]framework.Dependent[*App]{r.gate.Node("gate")}, implementation()...)
		if len(settles) > 0 {
			all = append(all, r.gate.Settled("settled", settles...))
		}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Workflow: framework.Workflow[*App]{Dependents: all}, KeepRecords: 100})
	}, test)
}

func only(d framework.Dependent[*App]) func() []framework.Dependent[*App] {
	return func() []framework.Dependent[*App] { return []framework.Dependent[*App]{d} }
}

// templateOf is a template of Pods that use what an app refers to.
func templateOf(app *App) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app.Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", Args: app.Spec.Databases}}},
	}
}

func metaOf(app *App) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}
}

// kept is how a Kubernetes dependent is set up for these tests.
func kept[S framework.Object](desired func(app *App) S, change func(*dependents.Kubernetes[*App, S])) *dependents.Kubernetes[*App, S] {
	k := &dependents.Kubernetes[*App, S]{Name: "web", DependsOn: []string{"gate"}, Desired: dependents.Pure(desired)}
	if change != nil {
		change(k)
	}
	return k
}

func deploymentOf(app *App) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metaOf(app), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app.Name}}, Template: templateOf(app),
	}}
}

func configOf(app *App) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metaOf(app), Data: map[string]string{"databases": strings.Join(app.Spec.Databases, ",")}}
}

// asked are the names of the kinds whose deletion was requested, with the propagation.
func (s *shop) deletions() (asked func() []string) {
	var all []string
	s.disturb(func(r apimodel.Request) apimodel.Fault {
		if r.Verb == "delete" {
			policy := "none"
			for _, p := range []string{"Foreground", "Background", "Orphan"} {
				if strings.Contains(string(r.Body), p) {
					policy = p
				}
			}
			all = append(all, r.Resource+" "+policy)
		}
		return apimodel.Fault{}
	})
	return func() []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return all
	}
}

// TestAWorkloadBehindAGateIsDeletedInTheForeground, so that it is gone only after its Pods. Other
// kinds, other places and authors who say otherwise are not concerned.
func TestAWorkloadBehindAGateIsDeletedInTheForeground(t *testing.T) {
	untyped := func(app *App) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": app.Namespace, "name": app.Name},
		}}
	}
	for name, c := range map[string]struct {
		of   framework.Dependent[*App]
		want string
	}{
		"a Deployment": {kept(deploymentOf, nil), "deployments Foreground"},
		"a Deployment, unstructured": {kept(untyped, func(k *dependents.Kubernetes[*App, *unstructured.Unstructured]) {
			k.Secondary.GroupVersionKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
		}), "deployments Foreground"},
		"a StatefulSet": {kept(func(app *App) *appsv1.StatefulSet { return &appsv1.StatefulSet{ObjectMeta: metaOf(app)} }, nil), "statefulsets Foreground"},
		"a DaemonSet":   {kept(func(app *App) *appsv1.DaemonSet { return &appsv1.DaemonSet{ObjectMeta: metaOf(app)} }, nil), "daemonsets Foreground"},
		"a ReplicaSet":  {kept(func(app *App) *appsv1.ReplicaSet { return &appsv1.ReplicaSet{ObjectMeta: metaOf(app)} }, nil), "replicasets Foreground"},
		"a Job":         {kept(func(app *App) *batchv1.Job { return &batchv1.Job{ObjectMeta: metaOf(app)} }, nil), "jobs Foreground"},
		"one of a set": {&dependents.Bulk[*App, *appsv1.Deployment]{
			Name: "web", DependsOn: []string{"gate"},
			Desired: func(_ context.Context, app *App, _ *appContext) ([]*appsv1.Deployment, error) {
				return []*appsv1.Deployment{deploymentOf(app)}, nil
			},
		}, "deployments Foreground"},
		"a ConfigMap": {kept(configOf, nil), "configmaps Background"},
		"as the author says": {kept(deploymentOf, func(k *dependents.Kubernetes[*App, *appsv1.Deployment]) {
			k.DeleteOptions = []framework.WriteOption{framework.Propagation(metav1.DeletePropagationBackground)}
		}), "deployments Background"},
	} {
		t.Run(name, func(t *testing.T) {
			openShopBehind(t, only(c.of), nil, func(s *shop) {
				s.database("p")
				d := s.app("d", "p")
				s.pass(time.Second)
				asked := s.deletions()
				s.delete(d)
				s.pass(time.Second)
				if got := asked(); len(got) != 1 || got[0] != c.want {
					t.Errorf("deleted %q, want %q", got, c.want)
				}
			})
		})
	}
	t.Run("beside a gate", func(t *testing.T) {
		beside := kept(deploymentOf, func(k *dependents.Kubernetes[*App, *appsv1.Deployment]) {
			k.DependsOn, k.Tie = nil, dependents.OwnedAndDeleted
		})
		behind := kept(configOf, func(k *dependents.Kubernetes[*App, *corev1.ConfigMap]) { k.Name = "config" })
		openShopBehind(t, func() []framework.Dependent[*App] { return []framework.Dependent[*App]{beside, behind} }, nil, func(s *shop) {
			d := s.app("d")
			s.pass(time.Second)
			asked := s.deletions()
			s.delete(d)
			s.pass(time.Second)
			if got := strings.Join(asked(), ", "); !strings.Contains(got, "deployments Background") {
				t.Errorf("deleted %q", got)
			}
		})
	})
}

// withPods is a Deployment whose Pods are looked after.
func withPods(ready func(*appsv1.Deployment) workflow.Verdict) *dependents.Kubernetes[*App, *appsv1.Deployment] {
	return kept(deploymentOf, func(k *dependents.Kubernetes[*App, *appsv1.Deployment]) {
		k.Ready = ready
		k.Pods = &dependents.Pods[*App]{Version: versionOf}
	})
}

// read reads an object that must be there.
func read[T client.Object](s *shop, o T, name string) T {
	s.Helper()
	noError(s.T, s.admin.Get(s.Context(), types.NamespacedName{Namespace: "default", Name: name}, o))
	return o
}

// podOf makes a Pod as the controller of a Deployment would: by the template.
func (s *shop) podOf(of *App, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	s.Helper()
	template := read(s, &appsv1.Deployment{}, of.Name).Spec.Template
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "default", name, "node"
	for _, c := range change {
		c(pod)
	}
	noError(s.T, s.admin.Create(s.Context(), pod))
	return pod
}

// goAtOnce takes an object away, whatever holds it.
func (s *shop) goAtOnce(o client.Object) {
	s.Helper()
	noError(s.T, client.IgnoreNotFound(s.admin.Delete(s.Context(), o, client.GracePeriodSeconds(0))))
	noError(s.T, client.IgnoreNotFound(s.admin.Patch(s.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
}

func heldPod(p *corev1.Pod) { p.Finalizers = []string{"example.com/held"} }

// TestNoProviderGoesBeforeThePodsOfWhatStoodBehindTheGate: however the Deployment went, whatever
// holds its Pods, and though the cache of Pods may be behind.
func TestNoProviderGoesBeforeThePodsOfWhatStoodBehindTheGate(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *shop) // before the Pod is there
		change func(*corev1.Pod)
	}{
		"a Pod in its grace period":           {nil, func(*corev1.Pod) {}},
		"a Pod with a finalizer":              {nil, heldPod},
		"a Pod that has ended":                {nil, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"a Pod that the cache does not show":  {func(s *shop) { s.model.Lag("pods", time.Hour) }, heldPod},
		"a Pod that lost its labels but ours": {nil, func(p *corev1.Pod) { delete(p.Labels, "app") }},
	} {
		for way, goes := range map[string]func(s *shop, d *App, web *appsv1.Deployment){
			"deleted with the app": func(s *shop, d *App, web *appsv1.Deployment) {
				s.delete(d)
				s.pass(time.Second)
				s.goAtOnce(web)
			},
			"deleted in the background before": func(s *shop, d *App, web *appsv1.Deployment) {
				s.model.Lag("deployments", time.Minute) // otherwise it would be created again
				s.goAtOnce(web)
				s.delete(d)
				s.pass(2 * time.Minute)
			},
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				openShopBehind(t, only(withPods(nil)), nil, func(s *shop) {
					p, d := s.database("p"), s.app("d", "p")
					s.pass(time.Second)
					web := read(s, &appsv1.Deployment{}, "d")
					if c.before != nil {
						c.before(s)
					}
					pod := s.podOf(d, "d-1", c.change)
					s.pass(time.Second)
					s.delete(p)
					goes(s, d, web)
					s.pass(time.Minute)
					s.expect([]client.Object{p, d, pod}, []client.Object{web})
					s.goAtOnce(pod)
					s.pass(time.Hour + time.Minute)
					s.expect(nil, []client.Object{p, d, pod})
				})
			})
		}
	}
}

// TestWhatMakesPodsKeepsTheProvider: a ReplicaSet that was orphaned has no Pod at the moment, and
// makes one the next.
func TestWhatMakesPodsKeepsTheProvider(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Hour} {
		openShopBehind(t, only(withPods(nil)), nil, func(s *shop) {
			p, d := s.database("p"), s.app("d", "p")
			s.pass(time.Second)
			web := read(s, &appsv1.Deployment{}, "d")
			s.model.Lag("replicasets", lag)
			set := &appsv1.ReplicaSet{ObjectMeta: *web.Spec.Template.ObjectMeta.DeepCopy()}
			set.Namespace, set.Name, set.Annotations = "default", "d-1", web.Annotations
			noError(t, s.admin.Create(s.Context(), set))
			s.delete(p)
			s.delete(d)
			s.pass(time.Second)
			s.goAtOnce(web)
			s.pass(time.Minute)
			s.expect([]client.Object{p, d}, []client.Object{web})
			s.goAtOnce(set)
			s.pass(2 * time.Hour)
			s.expect(nil, []client.Object{p, d})
		})
	}
}

// TestPodsOfOthersKeepNothing: of another app, and of another workload of the app.
func TestPodsOfOthersKeepNothing(t *testing.T) {
	openShopBehind(t, only(withPods(nil)), nil, func(s *shop) {
		p, d, other := s.database("p"), s.app("d", "p"), s.app("other")
		s.pass(time.Second)
		web := read(s, &appsv1.Deployment{}, "d")
		s.podOf(other, "other-1")
		s.podOf(d, "d-1", func(p *corev1.Pod) { p.Labels[dependents.PodsKey] = "another" })
		s.delete(p)
		s.delete(d)
		s.pass(time.Second)
		s.goAtOnce(web)
		s.pass(time.Minute)
		s.expect([]client.Object{other}, []client.Object{p, d})
	})
}

// TestNothingIsLetGoOfWhileFormerPodsAreThere: the Deployment is ready, on the new one.
func TestNothingIsLetGoOfWhileFormerPodsAreThere(t *testing.T) {
	ready := func(*appsv1.Deployment) workflow.Verdict { return workflow.Met() }
	for name, c := range map[string]struct {
		before func(s *shop)
		change func(*corev1.Pod)
		keeps  bool
	}{
		"one that runs":              {nil, func(*corev1.Pod) {}, true},
		"one that is held":           {nil, heldPod, true},
		"one that is not shown":      {func(s *shop) { s.model.Lag("pods", time.Hour) }, heldPod, true},
		"one that the cache is late": {func(s *shop) { s.model.Lag("pods", time.Second) }, heldPod, true},
	} {
		t.Run(name, func(t *testing.T) {
			openShopBehind(t, only(withPods(ready)), []string{"web"}, func(s *shop) {
				from, to := s.database("from"), s.database("to")
				d := s.app("d", "from")
				s.pass(time.Second)
				if c.before != nil {
					c.before(s)
				}
				pod := s.podOf(d, "d-1", c.change)
				s.refer(d, "to")
				s.delete(from)
				s.pass(time.Second)
				next := s.podOf(d, "d-2")
				if was, is := pod.Annotations[dependents.PodsVersionKey], next.Annotations[dependents.PodsVersionKey]; was != "from" || is != "to" {
					t.Errorf("the Pods are for %q and %q", was, is)
				}
				s.delete(pod)
				s.pass(time.Minute)
				s.expect([]client.Object{from, to, d, pod}, nil)
				s.goAtOnce(pod)
				s.pass(2 * time.Hour)
				s.expect([]client.Object{to, d, next}, []client.Object{from, pod})
				if s.condition(d, "Ready") == "" || s.condition(d, "Reconciling") != "" || s.condition(d, "Stalled") != "" {
					t.Errorf("conditions: %v", s.live(d).Status.Conditions)
				}
			})
		})
	}
	t.Run("none that has ended", func(t *testing.T) {
		openShopBehind(t, only(withPods(ready)), []string{"web"}, func(s *shop) {
			from := s.database("from")
			s.database("to")
			d := s.app("d", "from")
			s.pass(time.Second)
			pod := s.podOf(d, "d-1")
			pod.Status.Phase = corev1.PodFailed
			noError(t, s.admin.Status().Update(s.Context(), pod))
			s.refer(d, "to")
			s.delete(from)
			s.pass(time.Minute)
			s.expect([]client.Object{d, pod}, []client.Object{from})
		})
	})
}

// TestWhatIsOnlyReadLetsGo: the object of a ReadOnly node is not ours, so it cannot use what was
// released.
func TestWhatIsOnlyReadLetsGo(t *testing.T) {
	web := func() []framework.Dependent[*App] {
		return []framework.Dependent[*App]{&dependents.Kubernetes[*App, *corev1.ConfigMap]{
			Name: "web", DependsOn: []string{"gate"}, Access: dependents.ReadOnly,
			Ready: func(*corev1.ConfigMap) workflow.Verdict { return workflow.Met() },
		}}
	}
	openShopBehind(t, web, []string{"web"}, func(s *shop) {
		from, to := s.database("from"), s.database("to")
		d := s.app("d", "from")
		theirs := configOf(d)
		theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: shopVersion.String(), Kind: "App", Name: d.Name, UID: d.UID}}
		noError(t, s.admin.Create(s.Context(), theirs))
		s.pass(time.Second)
		s.delete(from)
		s.pass(time.Minute)
		s.expect([]client.Object{from, to, d}, nil)
		s.refer(d, "to")
		s.pass(time.Minute)
		s.expect([]client.Object{to, d, theirs}, []client.Object{from})
		s.delete(to)
		s.delete(d)
		s.pass(time.Minute)
		s.expect([]client.Object{theirs}, []client.Object{to, d})
	})
}

// TestPodsThatAreLookedAfterCostNoRequestAtRest: neither does Settled ask where there is nothing to
// let go of.
func TestPodsThatAreLookedAfterCostNoRequestAtRest(t *testing.T) {
	ready := func(*appsv1.Deployment) workflow.Verdict { return workflow.Met() }
	openShopBehind(t, only(withPods(ready)), []string{"web"}, func(s *shop) {
		s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.podOf(d, "d-1")
		s.pass(time.Second)
		s.requests()
		s.touch(d)
		s.pass(time.Second)
		if sent := s.requests(); len(sent) != count(sent, "apps: patch apps/status") {
			t.Errorf("requests beside that for the status: %q", sent)
		}
	})
}

// TestJobsOfACronJobKeepWhatTheyUse: a former one that has not ended would make a Pod again, and in
// a deletion each counts.
func TestJobsOfACronJobKeepWhatTheyUse(t *testing.T) {
	cronJob := kept(func(app *App) *batchv1.CronJob {
		return &batchv1.CronJob{ObjectMeta: metaOf(app), Spec: batchv1.CronJobSpec{
			Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: templateOf(app)}},
		}}
	}, func(k *dependents.Kubernetes[*App, *batchv1.CronJob]) {
		k.Ready = ready.Current[*batchv1.CronJob]
		k.Pods = &dependents.Pods[*App]{Version: versionOf}
	})
	openShopBehind(t, only(cronJob), []string{"web"}, func(s *shop) {
		p, q, d := s.database("p"), s.database("q"), s.app("d", "p")
		s.pass(time.Second)
		template := read(s, &batchv1.CronJob{}, "d").Spec.JobTemplate
		job := &batchv1.Job{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
		job.Namespace, job.Name = "default", "d-1"
		noError(t, s.admin.Create(s.Context(), job))
		s.refer(d, "q")
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, q, d}, nil)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		noError(t, s.admin.Status().Update(s.Context(), job))
		s.pass(time.Minute)
		s.expect([]client.Object{q, d}, []client.Object{p})
		asked := s.deletions()
		s.delete(q)
		s.delete(d)
		s.pass(time.Second)
		if got := asked(); len(got) != 1 || got[0] != "cronjobs Foreground" {
			t.Errorf("deleted %q", got)
		}
		s.goAtOnce(&batchv1.CronJob{ObjectMeta: metaOf(d)})
		s.pass(time.Minute)
		s.expect([]client.Object{q, d}, nil)
		s.goAtOnce(job)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{q, d})
	})
}

// byHand implements apps by a Deployment in Reconcile, without a workflow.
type byHand struct {
	gate        interlock.Gate[*Database, *App]
	deployments framework.Secondary[*appsv1.Deployment]
	pods        dependents.PodsOf[*App, *appsv1.Deployment]
}

func (r *byHand) Reconcile(ctx context.Context, app *App, c *appContext) (framework.UpdateControl[*App], error) {
	none := framework.NoUpdate[*App]()
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil || !grant.Granted() {
		return none, err
	}
	desired, err := r.pods.Mark(c, deploymentOf(app))
	if err != nil {
		return none, err
	}
	if _, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary()); err != nil {
		return none, err
	}
	if v, err := r.pods.Settled(ctx, c); err != nil || !v.Met {
		return none, err
	}
	return none, r.gate.Release(ctx, c)
}

func (r *byHand) Cleanup(ctx context.Context, _ *App, c *appContext) (framework.DeleteControl, error) {
	if web, err := r.deployments.Get(c); err != nil || web != nil {
		if err == nil && web.DeletionTimestamp == nil {
			err = framework.Delete(ctx, c, web)
		}
		return framework.KeepFinalizer(), err
	}
	if v, err := r.pods.Gone(ctx, c); err != nil || !v.Met {
		return framework.KeepFinalizer(), err
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// TestPodsAreLookedAfterWithoutADependent, too: by an author's own Reconcile and Cleanup.
func TestPodsAreLookedAfterWithoutADependent(t *testing.T) {
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &byHand{gate: interlock.Gate[*Database, *App]{Relation: databases}}
		var err error
		if r.pods, err = dependents.NewPodsOf(&dependents.Pods[*App]{Version: versionOf}, "web", &r.deployments); err != nil {
			return err
		}
		return framework.Register(op, r, framework.ControllerOptions[*App]{
			Secondaries: append(append(r.gate.Secondaries(), &r.deployments), r.pods.Secondaries()...), Sources: r.gate.Sources(),
		})
	}, func(s *shop) {
		p, q := s.database("p"), s.database("q")
		d := s.app("d", "p")
		s.pass(time.Second)
		first := s.podOf(d, "d-1", heldPod)
		s.refer(d, "q")
		s.delete(p)
		s.pass(time.Second)
		second := s.podOf(d, "d-2", heldPod)
		s.pass(time.Minute)
		s.expect([]client.Object{p, q, d}, nil)
		s.goAtOnce(first)
		s.pass(time.Minute)
		s.expect([]client.Object{q, d}, []client.Object{p})
		s.delete(q)
		s.delete(d)
		s.pass(time.Minute)
		s.expect([]client.Object{q, d}, nil)
		s.goAtOnce(second)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{q, d})
	})
	if _, err := dependents.NewPodsOf(&dependents.Pods[*App]{Version: versionOf}, "web", &framework.Secondary[*corev1.ConfigMap]{}); err == nil {
		t.Error("a ConfigMap has Pods")
	}
}

func versionOf(app *App) string { return strings.Join(app.Spec.Databases, ",") }

// TestPodsMustFit: what cannot be is refused when the controller is registered.
func TestPodsMustFit(t *testing.T) {
	version := func(*App) string { return "" }
	for want, d := range map[string]framework.Dependent[*App]{
		`dependent "web": Pods: must not be set for the kind`: kept(configOf, func(k *dependents.Kubernetes[*App, *corev1.ConfigMap]) {
			k.Pods = &dependents.Pods[*App]{Version: version}
		}),
		`dependent "web": Pods.Version: must be set`: kept(deploymentOf, func(k *dependents.Kubernetes[*App, *appsv1.Deployment]) {
			k.Pods = &dependents.Pods[*App]{}
		}),
		`Pods: must not be set with Access ReadOnly`: kept(nil, func(k *dependents.Kubernetes[*App, *appsv1.Deployment]) {
			k.Desired, k.Access, k.Pods = nil, dependents.ReadOnly, &dependents.Pods[*App]{Version: version}
		}),
	} {
		gate := &interlock.Gate[*Database, *App]{Relation: databases}
		err := registered(t, framework.Workflow[*App]{Dependents: []framework.Dependent[*App]{gate.Node("gate"), d}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// strip takes the owner references off what implements an app, as --cascade=orphan does, and
// anybody can.
func (s *shop) strip(o client.Object) {
	s.Helper()
	noError(s.T, s.admin.Patch(s.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))))
}

// heldConfig is a ConfigMap that somebody holds.
func heldConfig(app *App) *corev1.ConfigMap {
	config := configOf(app)
	config.Finalizers = []string{"example.com/held"}
	return config
}

// TestAnImplementationThatLostItsOwnerGoesBeforeTheProvider: it is deleted with the app, and seen
// gone, whenever it lost it.
func TestAnImplementationThatLostItsOwnerGoesBeforeTheProvider(t *testing.T) {
	for name, ties := range map[string]func(*dependents.Kubernetes[*App, *corev1.ConfigMap]){
		"owned":           nil,
		"owned, with key": func(k *dependents.Kubernetes[*App, *corev1.ConfigMap]) { k.Key = keyOfApp },
		"owned and deleted": func(k *dependents.Kubernetes[*App, *corev1.ConfigMap]) {
			k.Tie = dependents.OwnedAndDeleted
		},
		"created only": func(k *dependents.Kubernetes[*App, *corev1.ConfigMap]) { k.Access = dependents.CreatedOnly },
	} {
		for moment, lose := range map[string]func(s *shop, p *Database, d *App, config *corev1.ConfigMap){
			"in the deletion of the app, before its controller sees it": func(s *shop, p *Database, d *App, config *corev1.ConfigMap) {
				s.model.Lag("apps", 30*time.Second)
				s.model.Lag("configmaps", 10*time.Second)
				s.delete(d)
				s.strip(config)
			},
			"while it is being deleted": func(s *shop, p *Database, d *App, config *corev1.ConfigMap) {
				s.delete(d)
				s.pass(time.Second)
				s.strip(config)
			},
			"while it is being deleted, again and again": func(s *shop, p *Database, d *App, config *corev1.ConfigMap) {
				s.delete(d)
				for range 5 {
					s.pass(time.Second)
					s.strip(config)
				}
			},
			"while the gate is closed": func(s *shop, p *Database, d *App, config *corev1.ConfigMap) {
				s.refer(d, "p", "missing")
				s.pass(time.Second)
				s.strip(config)
				s.pass(time.Second)
				s.delete(d)
			},
			"while no operator runs": func(s *shop, p *Database, d *App, config *corev1.ConfigMap) {
				s.apps.stop()
				s.strip(config)
				s.delete(d)
				s.start(s.apps, "apps")
			},
		} {
			t.Run(name+" "+moment, func(t *testing.T) {
				openShopBehind(t, func() []framework.Dependent[*App] { return only(kept(heldConfig, ties))() }, nil, func(s *shop) {
					p, d := s.database("p"), s.app("d", "p")
					s.pass(time.Second)
					config := read(s, &corev1.ConfigMap{}, "d")
					s.delete(p)
					lose(s, p, d, config)
					s.pass(2 * time.Minute)
					s.expect([]client.Object{p, d, config}, nil)
					if read(s, &corev1.ConfigMap{}, "d").DeletionTimestamp == nil {
						t.Error("it is not deleted")
					}
					s.goAtOnce(config)
					s.pass(time.Minute)
					s.expect(nil, []client.Object{p, d, config})
				})
			})
		}
	}
}

func keyOfApp(app *App) types.NamespacedName {
	return types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
}

// TestWhatMayBeTheImplementationKeepsTheProvider: objects that the controller wrote for an unknown
// primary. They are not deleted.
func TestWhatMayBeTheImplementationKeepsTheProvider(t *testing.T) {
	var failing atomic.Bool
	failingConfig := func() []framework.Dependent[*App] {
		return []framework.Dependent[*App]{&dependents.Kubernetes[*App, *corev1.ConfigMap]{
			Name: "web", DependsOn: []string{"gate"},
			Desired: func(_ context.Context, app *App, _ *appContext) (*corev1.ConfigMap, error) {
				if failing.Load() {
					return nil, errors.New("the test says so")
				}
				return configOf(app), nil
			},
		}}
	}
	set := func() []framework.Dependent[*App] {
		return []framework.Dependent[*App]{&dependents.Bulk[*App, *corev1.ConfigMap]{
			Name: "web", DependsOn: []string{"gate"},
			Desired: func(_ context.Context, app *App, _ *appContext) ([]*corev1.ConfigMap, error) {
				return []*corev1.ConfigMap{configOf(app)}, nil
			},
		}}
	}
	single := func() []framework.Dependent[*App] { return only(kept(configOf, nil))() }
	owner := func(apiVersion, kind, name string) func(s *shop, config *corev1.ConfigMap) {
		patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":"other","controller":true}]}}`, apiVersion, kind, name)
		return func(s *shop, config *corev1.ConfigMap) {
			noError(s.T, s.admin.Patch(s.Context(), config, client.RawPatch(types.MergePatchType, []byte(patch))))
		}
	}
	strip := func(s *shop, config *corev1.ConfigMap) { s.strip(config) }
	for name, c := range map[string]struct {
		implementation func() []framework.Dependent[*App]
		fails          bool
		edit           func(s *shop, config *corev1.ConfigMap)
	}{
		"one of a set that lost its owner":          {set, false, strip},
		"one whose name nobody tells":               {failingConfig, true, strip},
		"one that was given to another controller":  {single, false, owner("v1", "Namespace", "other")},
		"one that was given to an app that is none": {single, false, owner("shop.example.com/v1", "App", "d")},
	} {
		t.Run(name, func(t *testing.T) {
			failing.Store(false)
			openShopBehind(t, c.implementation, nil, func(s *shop) {
				p, d := s.database("p"), s.app("d", "p")
				s.pass(time.Second)
				config := read(s, &corev1.ConfigMap{}, "d")
				s.apps.stop()
				failing.Store(c.fails)
				c.edit(s, config)
				s.delete(p)
				s.delete(d)
				s.start(s.apps, "apps")
				s.pass(time.Minute)
				s.expect([]client.Object{p, d, config}, nil)
				if read(s, &corev1.ConfigMap{}, "d").DeletionTimestamp != nil {
					t.Error("it is deleted")
				}
				s.goAtOnce(config)
				s.pass(10 * time.Minute)
				s.expect(nil, []client.Object{p, d, config})
			})
		})
	}
}

// TestWhatIsNotTheImplementationKeepsNothing: what others wrote, or have by right.
func TestWhatIsNotTheImplementationKeepsNothing(t *testing.T) {
	for name, labels := range map[string]map[string]string{"of the name": nil, "of the set": {dependents.SetKey: "web"}} {
		t.Run(name, func(t *testing.T) {
			all := func() []framework.Dependent[*App] {
				return []framework.Dependent[*App]{kept(configOf, nil), &dependents.Bulk[*App, *corev1.ConfigMap]{
					Name: "set", Set: "web", DependsOn: []string{"gate"},
					Desired: func(context.Context, *App, *appContext) ([]*corev1.ConfigMap, error) { return nil, nil },
				}}
			}
			openShopBehind(t, all, nil, func(s *shop) {
				foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Labels: maps.Clone(labels)}}
				noError(t, s.admin.Create(s.Context(), foreign))
				p, d := s.database("p"), s.app("d", "p")
				s.pass(time.Second)
				s.delete(p)
				s.delete(d)
				s.pass(time.Minute)
				s.expect([]client.Object{foreign}, []client.Object{p, d})
			})
		})
	}
}
