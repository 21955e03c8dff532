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

// PodsKey is the label of the Pods of one workload of a primary. It is on these Pods, and on the
// ReplicaSets and Jobs between the workload and its Pods.
const PodsKey = "evenkeel.dev/pods-of"

// PodsVersionKey is the annotation with the [Pods].Version that a Pod was made for.
const PodsVersionKey = "evenkeel.dev/pods-version"

// Pods tracks the Pods of a primary's workloads. Pods use what their workload needs, often for
// longer than the workload exists. The Pods of a Deployment outlive it unless it is deleted in the
// foreground. A Deployment is available while its former Pods still terminate. With
// --cascade=orphan they stay for good. Set it in [Kubernetes].Pods or [Bulk].Pods:
//
//	pods := &dependent.Pods[*v1.App]{Version: func(app *v1.App) string { return app.Spec.Database }}
//	web := &dependent.Kubernetes[*v1.App, *appsv1.Deployment]{
//		Desired: webOf, Ready: ready.Deployment, Pods: pods,
//	}
//
// The node is then ready only when no Pod of another version is left, and gone only when no Pod is
// left. For that the dependent adds a label and annotations to the Pod template, so adding Pods to
// an existing workload rolls it out once.
//
// It supports Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs and
// CronJobs, typed and unstructured. The controller needs the rights to list and watch pods; for
// Deployments also replicasets, for CronJobs also jobs. While nothing changes, it costs no request.
// Before a node counts as gone, and before a gate releases something ([interlock.Gate.Settled]),
// the API server is asked once for the Pods, and once for the ReplicaSets or Jobs.
//
// Several dependents may share one Pods. The names of their nodes separate their Pods, so a node
// with a changed name does not find the Pods that it made before. Set it up before the controller
// is registered; it must not be changed or copied afterwards. Its methods are safe for concurrent
// use.
//
// [interlock.Gate.Settled]:
// https://pkg.go.dev/github.com/evenkeel/evenkeel/framework/interlock#Gate.Settled
type Pods[P framework.Object] struct {
	// Version returns the part of the primary that its Pods depend on, such as the names of the
	// databases that they use. Required. Pods of another version, unless they have ended, keep the
	// node from being ready. A new version rolls out the workloads, so it should follow from the same
	// fields as their templates. It must be pure.
	Version func(primary P) string
	// Name is the name of the event source of the Pods, and the prefix of those of ReplicaSets and
	// Jobs. Default: "pods".
	Name string
	// Namespaces are the namespaces to watch. Default: those of the controller.
	Namespaces []string
	// Cluster is the cluster of the workloads. Default: the operator's.
	Cluster *rest.Config

	once        sync.Once // guards the creation of the fields below
	pods        *framework.Secondary[*corev1.Pod]
	replicaSets *framework.Secondary[*metav1.PartialObjectMetadata]
	jobs        *framework.Secondary[*batchv1.Job]
}

// prepare creates the sources. They watch only labelled objects and keep only what is needed here.
func (p *Pods[P]) prepare() {
	p.once.Do(func() {
		name := p.Name
		if name == "" {
			name = "pods"
		}
		p.pods = &framework.Secondary[*corev1.Pod]{
			Name: name, LabelSelector: PodsKey, By: eventsource.PrimaryRef{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Transform: &framework.Transform[*corev1.Pod]{Name: "phases", Prune: func(pod *corev1.Pod) {
				pod.Spec, pod.Status = corev1.PodSpec{}, corev1.PodStatus{Phase: pod.Status.Phase}
			}},
			Filter: func(old, new *corev1.Pod) bool { return new == nil || old != nil && hasEnded(old) != hasEnded(new) },
		}
		p.replicaSets = &framework.Secondary[*metav1.PartialObjectMetadata]{
			Name: name + "-replicasets", GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
			LabelSelector: PodsKey, By: eventsource.PrimaryRef{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Filter: func(_, new *metav1.PartialObjectMetadata) bool { return new == nil },
		}
		p.jobs = &framework.Secondary[*batchv1.Job]{
			Name: name + "-jobs", LabelSelector: PodsKey, By: eventsource.PrimaryRef{}, Namespaces: p.Namespaces, Cluster: p.Cluster,
			Filter: func(old, new *batchv1.Job) bool {
				return new == nil || old != nil && jobHasEnded(old) != jobHasEnded(new)
			},
		}
	})
}

// hasEnded reports whether a Pod has ended and will never run again.
func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// jobHasEnded reports whether a Job will make no more Pods.
func jobHasEnded(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// secondariesFor returns what is read for workloads of a kind.
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

// workload describes the workloads that one node makes for its primaries, with their Pods.
type workload[P framework.Object] struct {
	pods *Pods[P]
	node string
	kind schema.GroupKind
}

// check returns an error that names every invalid field.
func (w *workload[P]) check(access Access, cluster *rest.Config) error {
	var errs []error
	if !isWorkload(w.kind) {
		errs = append(errs, fieldError("Pods", "must not be set for the kind %q, whose Pods cannot be identified", w.kind))
	}
	if access == ReadOnly {
		errs = append(errs, fieldError("Pods", "must not be set with Access ReadOnly: nothing would label them"))
	}
	if w.pods.Version == nil {
		errs = append(errs, fieldError("Pods.Version", "must be set: it separates former Pods from present ones"))
	}
	if w.pods.Cluster != cluster {
		errs = append(errs, fieldError("Pods.Cluster", "must be that of the workload's Secondary"))
	}
	return errors.Join(errs...)
}

// of returns the label's value for a primary.
func (w *workload[P]) of(c *framework.Context[P]) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{c.PrimaryKind().GroupKind().String(), c.Key().String(), w.node}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// put returns a copy of the desired workload with the labels and annotations by which its Pods are
// found.
func (w *workload[P]) put(c *framework.Context[P], desired framework.Object) (framework.Object, error) {
	marked, err := copyOf(desired)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{PodsKey: w.of(c)}
	carrier := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: desired.GetNamespace()}}
	if err := (eventsource.PrimaryRef{}).Put(carrier, c.PrimaryKind().GroupKind(), c.Key()); err != nil {
		return nil, err
	}
	annotations := carrier.Annotations
	// ReplicaSets have the annotations of their Deployment and the labels of its template.
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

// markAt adds labels and annotations to the metadata at a path.
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

// PodsOf tracks the Pods of workloads that no [Kubernetes] or [Bulk] writes: of a node of your own,
// or of your Reconcile. Write the result of Mark, and call Gone and Settled. S is the type of the
// workloads.
type PodsOf[P, S framework.Object] struct{ of workload[P] }

// NewPodsOf returns the PodsOf for the workloads of a node; the name of the node is part of the
// label. It returns an error if the arguments do not fit together.
func NewPodsOf[P, S framework.Object](pods *Pods[P], node string, workloads *framework.Secondary[S]) (PodsOf[P, S], error) {
	w := workload[P]{pods, node, kindOfWorkload(workloads)}
	if err := w.check(Applied, workloads.Cluster); err != nil {
		return PodsOf[P, S]{}, fmt.Errorf("dependent: Pods of %q: %w", node, err)
	}
	return PodsOf[P, S]{w}, nil
}

// Secondaries returns what is read, for [framework.Node].Secondaries or
// [framework.ControllerOptions].Secondaries.
func (p PodsOf[P, S]) Secondaries() []framework.SecondarySource {
	return p.of.pods.secondariesFor(p.of.kind)
}

// Mark returns a copy of the desired workload with the marks by which its Pods are found.
func (p PodsOf[P, S]) Mark(c *framework.Context[P], desired S) (S, error) {
	marked, err := p.of.put(c, desired)
	if err != nil {
		return desired, err
	}
	return marked.(S), nil
}

// Gone is a delete postcondition. It is met when no Pod of the primary is left, nor anything that
// would make one. Call it when the workload is gone. The Pods must be in the primary's namespace.
// It costs one or two lists once the caches show none.
func (p PodsOf[P, S]) Gone(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return p.of.gone(ctx, c, c.Primary().GetNamespace())
}

// Settled is met when no Pod of another than the present version is left that may run. Call it when
// the workload is ready, and before something is released. It costs one or two lists once the
// caches show none.
func (p PodsOf[P, S]) Settled(ctx context.Context, c *framework.Context[P]) (workflow.Verdict, error) {
	return p.of.settled(ctx, c, c.Primary().GetNamespace(), true)
}

// isWorkload reports whether the kind is supported: whether the Pods of its objects can be
// identified.
func isWorkload(kind schema.GroupKind) bool { return templatePaths(kind) != nil }

// templatePaths returns the paths of the templates in a kind of workloads: those of the Pods, and
// of what makes them.
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

// templatesOf returns the metadata of the templates in a typed object.
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

// kindOfWorkload returns the kind of typed workloads, and for others the kind of the Secondary.
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

// gone returns whether no Pod of the primary is left, nor anything that would make one. It is met
// if w is nil.
func (w *workload[P]) gone(ctx context.Context, c *framework.Context[P], namespace string) (workflow.Verdict, error) {
	if w == nil {
		return workflow.Met(), nil
	}
	return w.verdict(ctx, c, namespace, true, func(framework.Object) bool { return true })
}

// settled returns whether no Pod that was made for another than the present version is left and may
// run, nor a Job that would make one. Unless sure is set, it uses only the caches. It is met if w
// is nil.
func (w *workload[P]) settled(ctx context.Context, c *framework.Context[P], namespace string, sure bool) (workflow.Verdict, error) {
	if w == nil {
		return workflow.Met(), nil
	}
	version := w.pods.Version(c.Primary())
	return w.verdict(ctx, c, namespace, sure, func(o framework.Object) bool {
		former := o.GetAnnotations()[PodsVersionKey] != version
		switch o := o.(type) {
		case *corev1.Pod:
			return former && !hasEnded(o)
		case *batchv1.Job:
			return former && !jobHasEnded(o)
		}
		return false // ReplicaSets of a Deployment make no Pods of a former version after the rollout
	})
}

// verdict judges the primary's Pods, and what makes them, that counts selects. The caches are read
// first; they can only prove that something is left, because they may be behind. If sure is set,
// the API server is asked after that: first for what makes Pods, then for the Pods, so that none
// appears in between.
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
				return workflow.Verdict{}, fmt.Errorf("dependent %s: check whether Pods are left: %w", w.node, err)
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

// remaining returns the names of the primary's objects that counts selects, from the cache or the
// API server.
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

// described returns the name of a remaining object, and what blocks its deletion.
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
