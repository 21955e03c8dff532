package client_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(started *testenv.Env) { env = started }, testenv.WebPageCRDs()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start returns a client and a namespace.
func start(t *testing.T) (*client.Client, string) {
	t.Helper()
	admin, err := client.New(env.Config, scheme.Scheme)
	must(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "client-"}}
	must(t, admin.Create(t.Context(), ns))
	return admin, ns.Name
}

func configMap(ns, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}}
}

func newPage(ns, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "samples.evenkeel.dev/v1", "kind": "WebPage",
		"metadata": map[string]any{"namespace": ns, "name": name}, "spec": map[string]any{"html": "<html/>"},
	}}
}

func TestAnObjectBecomesWhatTheServerAnswers(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	o := configMap(ns, "a", nil)
	o.Data = map[string]string{"k": "1"}
	must(t, admin.Create(ctx, o, client.FieldOwner("creator")))
	if o.UID == "" || o.Kind != "" || len(o.ManagedFields) != 1 || o.ManagedFields[0].Manager != "creator" {
		t.Errorf("created: %+v", o)
	}
	first := o.ResourceVersion
	o.Data["k"] = "2"
	must(t, admin.Update(ctx, o))
	if o.ResourceVersion == first || o.Data["k"] != "2" {
		t.Errorf("updated: %+v", o)
	}
	must(t, admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"data":null}`))))
	if o.Data != nil {
		t.Errorf("a key that is gone stays: %v", o.Data)
	}
	read := configMap(ns, "a", map[string]string{"stale": "yes"})
	read.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(o), read))
	if read.ResourceVersion != o.ResourceVersion || read.Labels != nil || read.Kind != "ConfigMap" {
		t.Errorf("read: %+v", read)
	}
}

func TestAnApplyHasAnOwnerAndForce(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	apply := func(manager, value string, options ...client.WriteOption) error {
		o := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":%q}}`, value)
		patch := client.RawPatch(types.ApplyPatchType, []byte(o))
		return admin.Patch(ctx, configMap(ns, "a", nil), patch, append(options, client.FieldOwner(manager))...)
	}
	must(t, apply("one", "1"))
	if err := apply("two", "2"); !apierrors.IsConflict(err) {
		t.Errorf("without force: %v", err)
	}
	must(t, apply("two", "2", client.ForceOwnership))
}

func TestStatusIsASubresource(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	must(t, admin.Create(ctx, pod))
	pod.Status.Message, pod.Spec.ActiveDeadlineSeconds = "updated", new(int64(1))
	must(t, admin.Status().Update(ctx, pod))
	if pod.Status.Message != "updated" || pod.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("updated: %+v", pod)
	}
	must(t, admin.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"patched"}}`))))
	var read corev1.Pod
	must(t, admin.SubResource("status").Get(ctx, pod, &read))
	if read.Status.Message != "patched" {
		t.Errorf("read: %+v", read.Status)
	}
}

func TestUnstructuredObjectsAndLists(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	page := newPage(ns, "a")
	must(t, admin.Create(ctx, page))
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(page), page))
	if page.GetKind() != "WebPage" || page.GetUID() == "" {
		t.Errorf("read: %v", page)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(page.GroupVersionKind().GroupVersion().WithKind("WebPageList"))
	must(t, admin.List(ctx, list, client.InNamespace(ns)))
	if len(list.Items) != 1 || list.Items[0].GetUID() != page.GetUID() || list.Items[0].GetKind() != "WebPage" {
		t.Errorf("listed: %v", list)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(page.GroupVersionKind())
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(page), metadata))
	if metadata.UID != page.GetUID() || metadata.Kind != "WebPage" {
		t.Errorf("metadata: %v", metadata)
	}
	page.SetName("b")
	page.SetResourceVersion("")
	page.Object["spec"].(map[string]any)["unknown"] = true
	if err := admin.Create(ctx, page, client.FieldValidation("Strict")); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestListsAreRestricted(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	_, other := start(t)
	for _, o := range []*corev1.ConfigMap{
		configMap(ns, "none", nil),
		configMap(ns, "x1", map[string]string{"x": "1"}),
		configMap(ns, "x1y1", map[string]string{"x": "1", "y": "1"}),
		configMap(ns, "x2y1", map[string]string{"x": "2", "y": "1"}),
		configMap(other, "elsewhere", map[string]string{"x": "1", "y": "1"}),
	} {
		must(t, admin.Create(ctx, o))
	}
	for _, c := range []struct {
		options []client.ListOption
		want    []string
	}{
		{nil, []string{"none", "x1", "x1y1", "x2y1"}},
		{[]client.ListOption{client.MatchingLabels{"x": "1"}}, []string{"x1", "x1y1"}},
		{[]client.ListOption{client.HasLabels{"x", "y"}}, []string{"x1y1", "x2y1"}},
		{[]client.ListOption{client.HasLabels{"y"}, client.MatchingLabels{"x": "1"}}, []string{"x1y1"}},
	} {
		var list corev1.ConfigMapList
		must(t, admin.List(ctx, &list, append(c.options, client.InNamespace(ns))...))
		var names []string
		for _, o := range list.Items {
			names = append(names, o.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%v: got %v, want %v", c.options, names, c.want)
		}
	}
	var all corev1.ConfigMapList
	must(t, admin.List(ctx, &all))
	if !slices.ContainsFunc(all.Items, func(o corev1.ConfigMap) bool { return o.Namespace == other }) {
		t.Error("without a namespace, the other one is not listed")
	}
}

func TestADeletionHasOptions(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	o := configMap(ns, "a", nil)
	must(t, admin.Create(ctx, o))
	must(t, admin.Create(ctx, configMap(ns, "b", nil), client.DryRunAll))
	if err := admin.Delete(ctx, configMap(ns, "b", nil)); !apierrors.IsNotFound(err) || client.IgnoreNotFound(err) != nil {
		t.Errorf("after a dry run: %v", err)
	}
	if err := admin.Create(ctx, configMap(ns, "a", nil)); !apierrors.IsAlreadyExists(err) || client.IgnoreAlreadyExists(err) != nil {
		t.Errorf("created twice: %v", err)
	}
	wrong := types.UID("another")
	if err := admin.Delete(ctx, o, client.Preconditions{UID: &wrong}); !apierrors.IsConflict(err) || client.IgnoreNotFound(err) == nil {
		t.Errorf("with another UID: %v", err)
	}
	must(t, admin.Delete(ctx, o, client.Preconditions{UID: &o.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(o), o))
	if !slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Errorf("deleted in the foreground: %+v", o)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	must(t, admin.Create(ctx, pod))
	must(t, admin.Delete(ctx, pod, client.GracePeriodSeconds(7)))
	must(t, admin.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds != 7 {
		t.Errorf("deleted with a grace period: %+v", pod.ObjectMeta)
	}
}

func TestAKindMustBeServed(t *testing.T) {
	ctx := t.Context()
	admin, ns := start(t)
	for _, kind := range []schema.GroupVersionKind{
		{Group: "nobody.example", Version: "v1", Kind: "WebPage"},
		{Group: "samples.evenkeel.dev", Version: "v1", Kind: "Nothing"},
	} {
		o := newPage(ns, "a")
		o.SetGroupVersionKind(kind)
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), o); !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: ns}, &corev1.ConfigMap{}); err == nil {
		t.Error("an object without a name is read: that is a list")
	}
}
