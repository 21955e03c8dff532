package portedtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/framework"
)

// webPages reconciles WebPages as the sample webpage of the Java Operator SDK does without the
// SDK's dependents, with a finalizer that it handles itself. Faithful are
//
//   - WebPageReconciler.java: what differs is created, or replaced if it exists already; a
//     Deployment counts as equal by its replicas and image, a Service by its selector; Pods are
//     deleted if this run saw another page in the ConfigMap;
//   - WebPageReconcilerLowLevel.java, its predecessor: the cleanup deletes what there is by name;
//   - SelectiveFinalizerHandlingReconciler.java of the SDK's tests: a reconciler that is called for
//     all events adds its finalizer before its work, and removes it after the cleanup.
type webPages struct {
	configMaps  framework.Secondary[*corev1.ConfigMap]
	deployments framework.Secondary[*appsv1.Deployment]
	services    framework.Secondary[*corev1.Service]
	pods        framework.Secondary[*corev1.Pod]
	// mended says that the status remembers for which page the Pods were restarted.
	mended bool
}

type (
	pageContext = framework.Context[*WebPage]
	pageUpdate  = framework.UpdateControl[*WebPage]
)

const (
	pageFinalizer = "finalizer.test/finalizer"
	lowLevel      = "low-level"
	indexHTML     = "index.html"
)

func registerWebPages(mended bool) func(*framework.Operator) error {
	return func(op *framework.Operator) error {
		r := &webPages{mended: mended}
		r.configMaps.LabelSelector, r.deployments.LabelSelector, r.services.LabelSelector = lowLevel, lowLevel, lowLevel
		r.pods.Map = func(*corev1.Pod) []k8stypes.NamespacedName { return nil } // they are listed at the server
		return framework.Register(op, r, framework.ControllerOptions[*WebPage]{
			AllEvents: true, Secondaries: framework.Secondaries(&r.configMaps, &r.deployments, &r.services, &r.pods),
		})
	}
}

func (r *webPages) Reconcile(ctx context.Context, page *WebPage, c *pageContext) (pageUpdate, error) {
	switch {
	case c.Gone():
		return pageUpdate{}, nil
	case page.DeletionTimestamp != nil:
		return pageUpdate{}, r.cleanUp(ctx, page, c)
	case !slices.Contains(page.Finalizers, pageFinalizer):
		page.Finalizers = append(page.Finalizers, pageFinalizer)
		updated, err := framework.Update(ctx, c, page)
		if err != nil {
			return pageUpdate{}, err
		}
		page.ObjectMeta = updated.ObjectMeta
	}
	if strings.Contains(page.Spec.HTML, "error") {
		return pageUpdate{}, errors.New("simulating error")
	}
	before, err := r.configMaps.Get(c)
	if err != nil {
		return pageUpdate{}, err
	}
	if err := r.makeAll(ctx, page, c, before); err != nil {
		return pageUpdate{}, err
	}
	restart := before != nil && before.Data[indexHTML] != page.Spec.HTML
	if r.mended {
		restart = page.Status.RestartedFor != page.Spec.HTML
	}
	if restart {
		if err := r.restart(ctx, page, c); err != nil {
			return pageUpdate{}, err
		}
	}
	page.Status = WebPageStatus{HTMLConfigMap: page.Name + "-html", AreWeGood: true}
	if r.mended {
		page.Status.RestartedFor = page.Spec.HTML
	}
	return framework.PatchStatus(page), nil
}

// makeAll makes what differs from what the page needs.
func (r *webPages) makeAll(ctx context.Context, page *WebPage, c *pageContext, before *corev1.ConfigMap) error {
	if desired := pageConfigMap(page); before == nil || !maps.Equal(before.Data, desired.Data) {
		if err := createOrReplace(ctx, c, &r.configMaps, desired); err != nil {
			return err
		}
	}
	deployment, err := r.deployments.Get(c)
	if err != nil {
		return err
	}
	if desired := pageDeployment(page); deployment == nil || !sameDeployment(deployment, desired) {
		if err := createOrReplace(ctx, c, &r.deployments, desired); err != nil {
			return err
		}
	}
	service, err := r.services.Get(c)
	if err != nil {
		return err
	}
	if desired := pageService(page); service == nil || !maps.Equal(service.Spec.Selector, desired.Spec.Selector) {
		return createOrReplace(ctx, c, &r.services, desired)
	}
	return nil
}

func sameDeployment(a, b *appsv1.Deployment) bool {
	return a.Spec.Replicas != nil && *a.Spec.Replicas == *b.Spec.Replicas &&
		a.Spec.Template.Spec.Containers[0].Image == b.Spec.Template.Spec.Containers[0].Image
}

func (r *webPages) ErrorStatus(_ context.Context, page *WebPage, _ *pageContext, failure error) framework.ErrorStatusControl[*WebPage] {
	page.Status.ErrorMessage = "Error: " + failure.Error()
	return framework.PatchErrorStatus(page)
}

// restart deletes the Pods that serve the page.
func (r *webPages) restart(ctx context.Context, page *WebPage, c *pageContext) error {
	for pod, err := range r.pods.LiveList(ctx, c, framework.Selection{Namespace: page.Namespace, LabelSelector: "app=" + page.Name}) {
		if err != nil {
			return err
		}
		if err := framework.Delete(ctx, c, pod); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp deletes everything, and removes the finalizer.
func (r *webPages) cleanUp(ctx context.Context, page *WebPage, c *pageContext) error {
	if !slices.Contains(page.Finalizers, pageFinalizer) {
		return nil
	}
	err := errors.Join(
		deleteNamed(ctx, c, &r.configMaps, page.Namespace, page.Name+"-html"),
		deleteNamed(ctx, c, &r.deployments, page.Namespace, page.Name),
		deleteNamed(ctx, c, &r.services, page.Namespace, page.Name),
	)
	if err != nil {
		return err
	}
	page.Finalizers = slices.DeleteFunc(page.Finalizers, func(f string) bool { return f == pageFinalizer })
	_, err = framework.Update(ctx, c, page)
	return err
}

func deleteNamed[S framework.Object](ctx context.Context, c *pageContext, of *framework.Secondary[S], namespace, name string) error {
	o, err := of.Live(ctx, c, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return framework.Delete(ctx, c, o)
}

// createOrReplace creates the object, or else replaces the one that there is, whoever made it.
func createOrReplace[S framework.Object](ctx context.Context, c *pageContext, of *framework.Secondary[S], desired S) error {
	_, err := framework.Create(ctx, c, desired)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := of.Live(ctx, c, desired.GetNamespace(), desired.GetName())
	if err != nil {
		return err
	}
	desired.SetResourceVersion(there.GetResourceVersion())
	_, err = framework.Update(ctx, c, desired)
	return err
}

func pageMeta(page *WebPage, name string) metav1.ObjectMeta {
	owner := metav1.OwnerReference{APIVersion: "sample.javaoperatorsdk/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}
	return metav1.ObjectMeta{
		Namespace: page.Namespace, Name: name, Labels: map[string]string{lowLevel: "true"}, OwnerReferences: []metav1.OwnerReference{owner},
	}
}

func pageConfigMap(page *WebPage) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: pageMeta(page, page.Name+"-html"), Data: map[string]string{indexHTML: page.Spec.HTML}}
}

func pageDeployment(page *WebPage) *appsv1.Deployment {
	app, one := map[string]string{"app": page.Name}, int32(1)
	volume := corev1.Volume{Name: "html-volume"}
	volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: page.Name + "-html"}}
	return &appsv1.Deployment{ObjectMeta: pageMeta(page, page.Name), Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: app},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1.17.0"}}, Volumes: []corev1.Volume{volume},
		}},
	}}
}

func pageService(page *WebPage) *corev1.Service {
	return &corev1.Service{ObjectMeta: pageMeta(page, page.Name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": page.Name}, Type: corev1.ServiceTypeNodePort,
		Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}},
	}}
}
