package behindtest

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

type (
	app        = corev1.ConfigMap // what it uses is in its data, its kind of workload is a label
	database   = corev1.Secret
	appContext = framework.Context[*app]
	appUpdate  = framework.UpdateControl[*app]
	appNode    = framework.Dependent[*app]
)

const (
	// lifeLabel is on all objects of a life.
	lifeLabel = "example.com/life"
	// kindLabel is on apps: their kind of workload.
	kindLabel = "example.com/kind"
	// databaseLabel is on Pods: the database that they use.
	databaseLabel = "example.com/database"
	// held is the finalizer of Pods that the test has to free.
	held = "example.com/held"
	// usesKey and heldKey are in the data of apps: the database, and whether the Pods are held.
	usesKey, heldKey = "database", "held"
)

var relation = interlock.Relation[*app]{
	Name: "databases.example.com",
	Providers: func(a *app) []types.NamespacedName {
		if a.Labels[kindLabel] == "" {
			return nil // it is no app, but the cluster's
		}
		return []types.NamespacedName{{Name: a.Data[usesKey]}}
	},
}

// replacement is what ends the Pods of a workload whose template has changed.
type replacement int

const (
	byItself replacement = iota
	surging              // by itself, and the next Pod runs before that
	byOthers             // somebody has to delete them
	byEnding             // nobody: they have to end
)

// workload is a kind that makes Pods.
type workload struct {
	schema.GroupVersionKind
	replacement replacement
	node        func() appNode // behind the gate
}

// workloads are the kinds of the specs.
var workloads = []workload{
	{appsv1.SchemeGroupVersion.WithKind("Deployment"), surging, func() appNode {
		return behind(deploymentOf, ready.Deployment)
	}},
	{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), byItself, func() appNode {
		return behind(statefulSetOf, ready.StatefulSet)
	}},
	{appsv1.SchemeGroupVersion.WithKind("DaemonSet"), byItself, func() appNode {
		return behind(daemonSetOf, ready.DaemonSet)
	}},
	{appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), byOthers, func() appNode {
		return behind(replicaSetOf, ready.Current[*appsv1.ReplicaSet])
	}},
	{corev1.SchemeGroupVersion.WithKind("ReplicationController"), byOthers, func() appNode {
		return behind(replicationControllerOf, ready.Current[*corev1.ReplicationController])
	}},
	{batchv1.SchemeGroupVersion.WithKind("Job"), byItself, func() appNode {
		job := behind(jobOf, ready.Current[*batchv1.Job])
		job.Replace = true
		return job
	}},
	{batchv1.SchemeGroupVersion.WithKind("CronJob"), byEnding, func() appNode {
		return behind(cronJobOf, ready.Current[*batchv1.CronJob])
	}},
}

// behind is the node of a workload that stands behind the gate.
func behind[S framework.Object](
	desired func(*app) S, ready func(S) workflow.Verdict,
) *dependent.Kubernetes[*app, S] {
	return &dependent.Kubernetes[*app, S]{
		Name: "workload", DependsOn: []string{"databases"},
		Desired: dependent.Pure(desired), Ready: ready,
		Pods: &dependent.Pods[*app]{Version: func(a *app) string { return a.Data[usesKey] }},
	}
}

// reconciler leaves all to the workflow.
type reconciler struct{}

func (reconciler) Reconcile(context.Context, *app, *appContext) (appUpdate, error) {
	return framework.NoUpdate[*app](), nil
}

// registerGuard registers the side of the databases.
func registerGuard(op *framework.Operator) error {
	return (&interlock.Guard[*database, *app]{Relation: relation}).Register(op)
}

// registerApps registers a controller of the apps of each kind.
func registerApps(op *framework.Operator) error {
	for _, w := range workloads {
		gate := &interlock.Gate[*database, *app]{Relation: relation}
		nodes := []appNode{gate.Node("databases"), w.node(), gate.Settled("settled", "workload")}
		err := framework.Register(op, reconciler{}, framework.ControllerOptions[*app]{
			Name: w.controller(), Finalizer: "example.com/" + w.controller(),
			LabelSelector: kindLabel + "=" + w.Kind,
			Workflow:      framework.Workflow[*app]{Dependents: nodes},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// controller is the name of the controller of the kind's apps.
func (w workload) controller() string { return strings.ToLower(w.Kind) }

func metaOf(a *app) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: a.Namespace, Name: a.Name, Labels: map[string]string{lifeLabel: a.Name},
	}
}

func selectorOf(a *app) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{lifeLabel: a.Name}}
}

// templateOf is the template of the Pods of an app.
func templateOf(a *app) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{lifeLabel: a.Name, databaseLabel: a.Data[usesKey]},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	if a.Data[heldKey] != "" {
		t.Finalizers = []string{held}
	}
	return t
}

func deploymentOf(a *app) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metaOf(a), Spec: appsv1.DeploymentSpec{
		Selector: selectorOf(a), Template: templateOf(a),
	}}
}

func statefulSetOf(a *app) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metaOf(a), Spec: appsv1.StatefulSetSpec{
		ServiceName: a.Name, Selector: selectorOf(a), Template: templateOf(a),
	}}
}

func daemonSetOf(a *app) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: metaOf(a), Spec: appsv1.DaemonSetSpec{
		Selector: selectorOf(a), Template: templateOf(a),
	}}
}

func replicaSetOf(a *app) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metaOf(a), Spec: appsv1.ReplicaSetSpec{
		Selector: selectorOf(a), Template: templateOf(a),
	}}
}

func replicationControllerOf(a *app) *corev1.ReplicationController {
	template := templateOf(a)
	return &corev1.ReplicationController{
		ObjectMeta: metaOf(a), Spec: corev1.ReplicationControllerSpec{
			Selector: selectorOf(a).MatchLabels, Template: &template,
		},
	}
}

func jobOf(a *app) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metaOf(a), Spec: batchv1.JobSpec{Template: templateOf(a)}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return job
}

// cronJobOf makes no Job by itself: the test does, as kubectl create job --from.
func cronJobOf(a *app) *batchv1.CronJob {
	suspended := true
	return &batchv1.CronJob{ObjectMeta: metaOf(a), Spec: batchv1.CronJobSpec{
		Schedule: "@daily", Suspend: &suspended, JobTemplate: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{lifeLabel: a.Name}},
			Spec:       jobOf(a).Spec,
		},
	}}
}
