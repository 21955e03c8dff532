package dependent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// PodsKey is the label that tells the Pods of one workload of a primary from all others. It is on the workload's Pods, and on the
// ReplicaSets and Jobs between the workload and its Pods.
const PodsKey = "evenkeel.dev/pods-of"

// PodsVersionKey is the annotation with the [Pods.Version] that a Pod was made for.
const PodsVersionKey = "evenkeel.dev/pods-version"

// Pods are the Pods of a primary's workloads. They use what a workload is implemented on, often for longer than the workload
// exists: the Pods of a Deployment outlive it unless it is deleted in the foreground, a Deployment is available while its former
// Pods still terminate, and with --cascade=orphan they stay for good. Name them in [Kubernetes.Pods] or [Bulk.Pods]:
//
//	pods := &dependent.Pods[*v1.App]{Version: func(app *v1.App) string { return app.Spec.Database }}
//	web := &dependent.Kubernetes[*v1.App, *appsv1.Deployment]{Desired: webOf, Ready: ready.Deployment, Pods: pods}
//
// Then the node is ready only when no Pod of another version is left, and gone only when no Pod is left. The dependent puts a
// label and annotations on the Pod template for that, so the first time that adds Pods to a workload that exists rolls it out.
//
// Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs and CronJobs have Pods, typed and
// unstructured. The controller needs the rights to list and watch pods; for Deployments also replicasets, for CronJobs also jobs.
// While nothing changes, it costs no request. Before a node counts as gone, and before a gate lets go of something
// ([interlock.Gate.Settled]), the API server is asked once for the Pods, and once for the ReplicaSets or Jobs.
//
// One Pods may be shared by several dependents, which keep their own Pods apart by the names of their nodes: with another name,
// a node does not find the Pods that it made before. It is set up before the controller is registered, and not changed or copied
// after that. Its methods are safe for concurrent use.
//
// [interlock.Gate.Settled]: https://pkg.go.dev/github.com/evenkeel/evenkeel/framework/interlock#Gate.Settled
type Pods[P framework.Object] struct {
	// Version is what of the primary its Pods are made for, as the names of the databases that they use. Pods of another version
	// keep the node from being ready, unless they have ended. A new version rolls out the workloads, and so should follow from
	// what their templates follow from. It must be pure. Required.
	Version func(primary P) string
	// Name of the event source of the Pods, and the beginning of the names of those of ReplicaSets and Jobs. Default: "pods".
	Name string
	// Namespaces to watch. Default: those of the controller.
	Namespaces []string
	// Cluster is the one that the workloads are in. Default: the operator's.
	Cluster *rest.Config

	once        sync.Once // makes what follows
	pods        *framework.Secondary[*corev1.Pod]
	replicaSets *framework.Secondary[*metav1.PartialObjectMetadata]
	jobs        *framework.Secondary[*batchv1.Job]
}

// prepare makes the sources: of the labelled ones, and of what matters here.
func (p *Pods[P]) prepare() {
	p.once.Do(func() {
		name := p.Name
		if name == "" {
			name = "pods"
		}
		p.pods = &framework.Secondary[*corev1.Pod]{
			Name: name, LabelSelector: PodsKey, By: eventsource.Marks{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Transform: &framework.Transform[*corev1.Pod]{Name: "phases", Prune: func(pod *corev1.Pod) {
				pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{Phase: pod.Status.Phase}
			}},
			Filter: func(old, new *corev1.Pod) bool { return new == nil || old != nil && hasEnded(old) != hasEnded(new) },
		}
		p.replicaSets = &framework.Secondary[*metav1.PartialObjectMetadata]{
			Name: name + "-replicasets", GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
			LabelSelector: PodsKey, By: eventsource.Marks{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Filter: func(_, new *metav1.PartialObjectMetadata) bool { return new == nil },
		}
		p.jobs = &framework.Secondary[*batchv1.Job]{
			Name: name + "-jobs", LabelSelector: PodsKey, By: eventsource.Marks{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Filter: func(old, new *batchv1.Job) bool {
				return new == nil || old != nil && jobHasEnded(old) != jobHasEnded(new)
			},
		}
	})
}

// hasEnded reports whether a Pod runs nothing anymore, and never will.
func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// jobHasEnded reports whether a Job makes no Pods anymore.
func jobHasEnded(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// secondariesFor are what is read for workloads of a kind.
func (p *Pods[P]) secondariesFor(workload schema.GroupKind) []framework.SecondarySource {
	p.prepare()
	switch workload {
	case appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind():
		return framework.Secondaries(p.pods, p.replicaSets)
	case batchv1.SchemeGroupVersion.WithKind("CronJob").GroupKind():
		return framework.Secondaries(p.pods, p.jobs)
	}
	return framework.Secondaries(p.pods)
}

// workload is a node's workloads of a kind, with their Pods: as one node makes them for its primaries.
type workload[P framework.Object] struct {
	pods *Pods[P]
	node string
	kind schema.GroupKind
}

// check reports what cannot be.
func (w *workload[P]) check(access Access, cluster *rest.Config) error {
	var errs []error
	if !isWorkload(w.kind) {
		errs = append(errs, misfit("Pods", "must not be set for the kind %q, which has no Pods that can be told", w.kind))
	}
	if access == ReadOnly {
		errs = append(errs, misfit("Pods", "must not be set with Access ReadOnly: nothing would put the label on them"))
	}
	if w.pods.Version == nil {
		errs = append(errs, misfit("Pods.Version", "must be set: it tells former Pods from present ones"))
	}
	if w.pods.Cluster != cluster {
		errs = append(errs, misfit("Pods.Cluster", "must be that of the workload's Secondary"))
	}
	return errors.Join(errs...)
}

// of is the label's value, for a primary.
func (w *workload[P]) of(c *framework.Context[P]) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{c.PrimaryKind().GroupKind().String(), c.Key().String(), w.node}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// put returns a copy of the desired workload whose templates carry the marks by which its Pods are found.
func (w *workload[P]) put(c *framework.Context[P], desired framework.Object) (framework.Object, error) {
	marked, err := copyOf(desired)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{PodsKey: w.of(c)}
	carrier := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: desired.GetNamespace()}}
	if err := (eventsource.Marks{}).Put(carrier, c.PrimaryKind().GroupKind(), c.Key()); err != nil {
		return nil, err
	}
	annotations := carrier.Annotations
	// What makes Pods for a Deployment, its ReplicaSets, has the annotations of the Deployment, and the labels of the template.
	marked.SetAnnotations(joined(marked.GetAnnotations(), annotations))
	annotations[PodsVersionKey] = w.pods.Version(c.Primary())
	if u, untyped := marked.(*unstructured.Unstructured); untyped {
		for _, path := range templatePaths(w.kind) {
			if err := markAt(u.Object, path, labels, annotations); err != nil {
				return nil, fmt.Errorf("dependent %s: %s: %w", w.node, kindName(desired), err)
			}
		}
		return marked, nil
	}
	for _, template := range templatesOf(marked) {
		template.Labels, template.Annotations = joined(template.Labels, labels), joined(template.Annotations, annotations)
	}
	return marked, nil
}

func joined(all, more map[string]string) map[string]string {
	if all = maps.Clone(all); all == nil {
		all = make(map[string]string, len(more))
	}
	maps.Copy(all, more)
	return all
}

// markAt puts labels and annotations into the metadata at a path.
func markAt(content map[string]any, path []string, labels, annotations map[string]string) error {
	for field, more := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		at := append(slices.Clone(path), "metadata", field)
		all, _, err := unstructured.NestedStringMap(content, at...)
		if err == nil {
			err = unstructured.SetNestedStringMap(content, joined(all, more), at...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// PodsOf are the Pods of the workloads of a node that is not a [Kubernetes] or a [Bulk], or of what Reconcile makes by itself: one of your
// own, which writes what Mark returns, and asks Gone and Settled. S is the type of the workloads.
type PodsOf[P, S framework.Object] struct{ of workload[P] }

// NewPodsOf returns those of the workloads of a node, of which the name is part of the label. The error says what does not fit.
func NewPodsOf[P, S framework.Object](pods *Pods[P], node string, workloads *framework.Secondary[S]) (PodsOf[P, S], error) {
	w := workload[P]{pods, node, kindOfWorkload(workloads)}
	if err := w.check(Applied, workloads.Cluster); err != nil {
		return PodsOf[P, S]{}, fmt.Errorf("dependent: Pods of %q: %w", node, err)
	}
	return PodsOf[P, S]{w}, nil
}

// Secondaries are what is read: for [framework.Node.Secondaries], or [framework.ControllerOptions.Secondaries].
func (p PodsOf[P, S]) Secondaries() []framework.SecondarySource {
	return p.of.pods.secondariesFor(p.of.kind)
}

// Mark returns a copy of the desired workload, by whose templates its Pods are found.
func (p PodsOf[P, S]) Mark(c *framework.Context[P], desired S) (S, error) {
	marked, err := p.of.put(c, desired)
	if err != nil {
		return desired, err
	}
	return marked.(S), nil
}

// Gone is a delete postcondition: met when no Pod of the primary is left, nor anything that would make one. To be asked when the
// workload is gone. They must be in the primary's namespace. It costs one or two lists once the caches show none.
func (p PodsOf[P, S]) Gone(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return p.of.gone(ctx, c, c.Primary().GetNamespace())
}

// Settled is met when no Pod of another version than the present is left that may run. To be asked when the workload is ready, and
// before something is let go of: it costs one or two lists once the caches show none.
func (p PodsOf[P, S]) Settled(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return p.of.settled(ctx, c, c.Primary().GetNamespace(), true)
}

// isWorkload reports whether Pods can be told to be of an object of the kind.
func isWorkload(kind schema.GroupKind) bool { return templatePaths(kind) != nil }

// templatePaths are where a kind of workloads has its templates: those of the Pods, and of what makes them.
func templatePaths(kind schema.GroupKind) [][]string {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
		schema.GroupKind{Group: "apps", Kind: "DaemonSet"}, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"},
		schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Kind: "ReplicationController"}:
		return [][]string{{"spec", "template"}}
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return [][]string{{"spec", "jobTemplate"}, {"spec", "jobTemplate", "spec", "template"}}
	}
	return nil
}

// templatesOf are the same of a typed object.
func templatesOf(o framework.Object) []*metav1.ObjectMeta {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	case *appsv1.StatefulSet:
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	case *appsv1.DaemonSet:
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	case *appsv1.ReplicaSet:
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	case *batchv1.Job:
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	case *batchv1.CronJob:
		return []*metav1.ObjectMeta{&o.Spec.JobTemplate.ObjectMeta, &o.Spec.JobTemplate.Spec.Template.ObjectMeta}
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			o.Spec.Template = &corev1.PodTemplateSpec{}
		}
		return []*metav1.ObjectMeta{&o.Spec.Template.ObjectMeta}
	}
	return nil
}

// kindOfWorkload is the kind of typed workloads, and what the Secondary says of others.
func kindOfWorkload[S framework.Object](source *framework.Secondary[S]) schema.GroupKind {
	switch any(newObject[S]()).(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *appsv1.ReplicaSet:
		return schema.GroupKind{Group: "apps", Kind: typeName[S]()}
	case *batchv1.Job, *batchv1.CronJob:
		return schema.GroupKind{Group: "batch", Kind: typeName[S]()}
	case *corev1.ReplicationController:
		return schema.GroupKind{Kind: "ReplicationController"}
	}
	return source.GroupVersionKind.GroupKind()
}

func typeName[S framework.Object]() string { return reflect.TypeFor[S]().Elem().Name() }

// gone reports whether no Pod of the primary is left, nor anything that would make one.
func (w *workload[P]) gone(ctx context.Context, c *framework.Context[P], namespace string) (workflow.Verdict, error) {
	return w.verdict(ctx, c, namespace, true, func(framework.Object) bool { return true })
}

// settled reports whether no Pod that was made for another version than the present is left and may run, nor a Job that would
// make one. Unless it is to be sure, it is what the caches show.
func (w *workload[P]) settled(ctx context.Context, c *framework.Context[P], namespace string, sure bool) (workflow.Verdict, error) {
	version := w.pods.Version(c.Primary())
	return w.verdict(ctx, c, namespace, sure, func(o framework.Object) bool {
		former := o.GetAnnotations()[PodsVersionKey] != version
		switch o := o.(type) {
		case *corev1.Pod:
			return former && !hasEnded(o)
		case *batchv1.Job:
			return former && !jobHasEnded(o)
		}
		return false // a ReplicaSet of a Deployment that is rolled out makes none of a former version
	})
}

// verdict is about what counts of a primary's Pods and of what makes them. The caches may only say that something is left, as they
// may be behind. To be sure, the API server is asked after that: first for what makes Pods, then for the Pods, so that none
// comes between the two.
func (w *workload[P]) verdict(ctx context.Context, c *framework.Context[P], namespace string, sure bool, counts func(framework.Object) bool) (workflow.Verdict, error) {
	p := w.pods
	p.prepare()
	selection := framework.Selection{Namespace: namespace, LabelSelector: PodsKey + "=" + w.of(c)}
	looks := []func(live bool) ([]string, error){
		func(live bool) ([]string, error) { return remaining(ctx, c, p.pods, live, selection, counts) },
	}
	switch w.kind.Kind {
	case "Deployment":
		looks = append(looks, func(live bool) ([]string, error) { return remaining(ctx, c, p.replicaSets, live, selection, counts) })
	case "CronJob":
		looks = append(looks, func(live bool) ([]string, error) { return remaining(ctx, c, p.jobs, live, selection, counts) })
	}
	slices.Reverse(looks)
	for _, live := range []bool{false, true} {
		var left []string
		for _, look := range looks {
			names, err := look(live)
			if err != nil {
				return workflow.Verdict{}, fmt.Errorf("dependent %s: whether Pods are left: %w", w.node, err)
			}
			left = append(left, names...)
		}
		if len(left) > 0 {
			return workflow.NotMet("still there: %s", enumerated(left)), nil
		}
		if !sure {
			break
		}
	}
	return workflow.Met(), nil
}

// remaining names what counts of a primary's, as the cache or the API server shows it.
func remaining[P, S framework.Object](ctx context.Context, c *framework.Context[P], source *framework.Secondary[S], live bool, selection framework.Selection, counts func(framework.Object) bool) (names []string, err error) {
	all := source.Each(c)
	if live {
		all = source.LiveList(ctx, c, selection)
	}
	label, value, _ := strings.Cut(selection.LabelSelector, "=")
	for o, err := range all {
		if err != nil {
			return nil, err
		}
		if o.GetLabels()[label] == value && counts(o) {
			names = append(names, described(o))
		}
	}
	return names, nil
}

// described names an object that is left, and what holds it up.
func described(o framework.Object) string {
	text := kindName(o)
	if o.GetDeletionTimestamp() != nil {
		text += " in deletion"
		if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
			text += " (held by " + strings.Join(finalizers, ", ") + ")"
		}
	}
	return text
}

// maxNamed is how many objects a verdict names.
const maxNamed = 3

func enumerated(names []string) string {
	slices.Sort(names)
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
