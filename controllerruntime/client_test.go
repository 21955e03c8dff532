package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ctrl "github.com/evenkeel/evenkeel/controllerruntime"
	"github.com/evenkeel/evenkeel/controllerruntime/builder"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// inRun calls a function in a run of the page p, which exists, as do the ConfigMaps p (owned), a
// and b (of nobody, labelled), and c in another namespace.
func inRun(t *testing.T, try func(ctx context.Context, c client.Client, page *v1.WebPage) error) {
	t.Helper()
	w := newWorld(t, ctrl.NewManager, options(t))
	r := &pages{Client: w.manager.GetClient(), scheme: w.manager.GetScheme()}
	if err := w.manager.GetFieldIndexer().IndexField(t.Context(), &corev1.ConfigMap{}, "data.color", func(o client.Object) []string {
		if color := o.(*corev1.ConfigMap).Data["color"]; color != "" {
			return []string{color}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	tried := make(chan error, 1)
	r.also = func(ctx context.Context, page *v1.WebPage) error {
		select {
		case tried <- try(ctx, r.Client, page):
		default:
		}
		return nil
	}
	if err := build(w.manager, r); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*corev1.ConfigMap{configMap("default", "a", "red"), configMap("default", "b", "blue"), configMap("other", "c", "red")} {
		if err := w.admin.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	w.create("p", "x")
	w.start()
	if err := <-tried; err != nil {
		t.Error(err)
	}
}

func configMap(namespace, name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"color": color}}, Data: map[string]string{"color": color}}
}

func TestListsOfWatchedKinds(t *testing.T) {
	inRun(t, func(ctx context.Context, c client.Client, _ *v1.WebPage) error {
		var errs []error
		for name, l := range map[string]struct {
			opts []client.ListOption
			want string
		}{
			"all":                    {nil, "a b c p"},
			"a namespace":            {[]client.ListOption{client.InNamespace("default")}, "a b p"},
			"labels":                 {[]client.ListOption{client.MatchingLabels{"color": "red"}}, "a c"},
			"labels of a namespace":  {[]client.ListOption{client.MatchingLabels{"color": "red"}, client.InNamespace("other")}, "c"},
			"a field":                {[]client.ListOption{client.MatchingFields{"data.color": "red"}}, "a c"},
			"a field of a namespace": {[]client.ListOption{client.MatchingFields{"data.color": "red"}, client.InNamespace("default")}, "a"},
			"a name":                 {[]client.ListOption{client.MatchingFields{"metadata.name": "b"}}, "b"},
			"a field and a name":     {[]client.ListOption{client.MatchingFields{"data.color": "red", "metadata.name": "c"}}, "c"},
			"none":                   {[]client.ListOption{client.MatchingFields{"data.color": "green"}}, ""},
		} {
			typed, loose, metadata := &corev1.ConfigMapList{}, &unstructured.UnstructuredList{}, &metav1.PartialObjectMetadataList{}
			kind := corev1.SchemeGroupVersion.WithKind("ConfigMapList")
			loose.SetGroupVersionKind(kind)
			metadata.SetGroupVersionKind(kind)
			var all [3][]string
			errs = append(errs, c.List(ctx, typed, l.opts...), c.List(ctx, loose, l.opts...), c.List(ctx, metadata, l.opts...))
			for _, o := range typed.Items {
				all[0] = append(all[0], o.Name)
			}
			for _, o := range loose.Items {
				all[1] = append(all[1], o.GetName())
			}
			for _, o := range metadata.Items {
				all[2] = append(all[2], o.Name)
			}
			for i, names := range all {
				slices.Sort(names)
				if got := strings.Join(names, " "); got != l.want {
					errs = append(errs, fmt.Errorf("%s, form %d: %s, want %s", name, i, got, l.want))
				}
			}
		}
		few := &corev1.ConfigMapList{}
		if err := c.List(ctx, few, client.Limit(2)); err != nil || len(few.Items) != 2 {
			errs = append(errs, fmt.Errorf("%d of 2, %w", len(few.Items), err))
		}
		for _, o := range []client.ListOption{client.MatchingFields{"data.size": "1"}, client.Continue("x")} {
			if err := c.List(ctx, few, o); err == nil {
				errs = append(errs, fmt.Errorf("%v is no error", o))
			}
		}
		return errors.Join(errs...)
	})
}

// Each write is readable at once, by whatever way it is made.
func TestWritesAreReadAtOnce(t *testing.T) {
	key := client.ObjectKey{Namespace: "default", Name: "a"}
	expect := func(ctx context.Context, c client.Client, data string) error {
		typed, loose := &corev1.ConfigMap{}, &unstructured.Unstructured{}
		loose.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		if err := errors.Join(c.Get(ctx, key, typed), c.Get(ctx, key, loose)); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(loose.Object, "data", "x"); typed.Data["x"] != data || got != data || loose.GetKind() != "ConfigMap" {
			return fmt.Errorf("read %q and %q, want %q", typed.Data["x"], got, data)
		}
		return nil
	}
	get := func(ctx context.Context, c client.Client) *corev1.ConfigMap {
		m := &corev1.ConfigMap{}
		if err := c.Get(ctx, key, m); err != nil {
			t.Error(err)
		}
		return m
	}
	for name, write := range map[string]func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error{
		"update": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			m.Data["x"] = "1"
			return c.Update(ctx, m)
		},
		"update without a version": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			m.Data["x"], m.ResourceVersion = "1", ""
			return c.Update(ctx, m)
		},
		"update with validation": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			m.Data["x"] = "1"
			return c.Update(ctx, m, client.FieldValidation("Strict"))
		},
		"merge patch": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			before := m.DeepCopy()
			m.Data["x"] = "1"
			return c.Patch(ctx, m, client.MergeFrom(before))
		},
		"strategic merge patch": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			before := m.DeepCopy()
			m.Data["x"] = "1"
			return c.Patch(ctx, m, client.StrategicMergeFrom(before))
		},
		"JSON patch": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			return c.Patch(ctx, m, client.RawPatch("application/json-patch+json", []byte(`[{"op":"add","path":"/data/x","value":"1"}]`)))
		},
		"merge patch by name": func(ctx context.Context, c client.Client, _ *corev1.ConfigMap) error {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			return c.Patch(ctx, m, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"x":"1"}}`)))
		},
		"apply": func(ctx context.Context, c client.Client, _ *corev1.ConfigMap) error {
			return c.Apply(ctx, corev1ac.ConfigMap("a", "default").WithData(map[string]string{"x": "1"}), client.FieldOwner("me"), client.ForceOwnership)
		},
		"delete and create": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			if err := c.Delete(ctx, m, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				return err
			}
			if err := c.Get(ctx, key, m); !apierrors.IsNotFound(err) {
				return fmt.Errorf("after the deletion: %w", err)
			}
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"x": "1"}})
		},
		"delete all and create": func(ctx context.Context, c client.Client, m *corev1.ConfigMap) error {
			if err := c.DeleteAllOf(ctx, m, client.InNamespace("default"), client.MatchingLabels{"color": "red"}); err != nil {
				return err
			}
			if err := c.Get(ctx, key, m); !apierrors.IsNotFound(err) {
				return fmt.Errorf("after the deletion: %w", err)
			}
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"x": "1"}}, client.FieldValidation("Strict"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRun(t, func(ctx context.Context, c client.Client, _ *v1.WebPage) error {
				m := get(ctx, c)
				if err := write(ctx, c, m); err != nil {
					return err
				}
				return expect(ctx, c, "1")
			})
		})
	}
}

// The caller's object has the answer, and a write of an old version is a conflict.
func TestAnswersAndConflicts(t *testing.T) {
	inRun(t, func(ctx context.Context, c client.Client, page *v1.WebPage) error {
		old := page.DeepCopy()
		page.Labels = map[string]string{"a": "b"}
		if err := c.Update(ctx, page); err != nil {
			return err
		}
		if page.ResourceVersion == old.ResourceVersion || page.Kind != "WebPage" {
			return fmt.Errorf("the object is of version %s, kind %q", page.ResourceVersion, page.Kind)
		}
		if err := c.Update(ctx, old); !apierrors.IsConflict(err) {
			return fmt.Errorf("an old version: %w", err)
		}
		before := page.DeepCopy()
		page.Status.URL = "/patched"
		if err := c.Status().Patch(ctx, page, client.MergeFrom(before)); err != nil {
			return err
		}
		read := &v1.WebPage{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(page), read); err != nil || read.Status.URL != "/patched" || read.Labels["a"] != "b" {
			return fmt.Errorf("read %+v, %w", read.Status, err)
		}
		*page = *read
		dry := read.DeepCopy()
		dry.Labels["a"] = "dry"
		if err := c.Update(ctx, dry, client.DryRunAll); err != nil || dry.Labels["a"] != "dry" {
			return fmt.Errorf("dry run: %v, %w", dry.Labels, err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(page), read); err != nil || read.Labels["a"] != "b" {
			return fmt.Errorf("after a dry run: %v, %w", read.Labels, err)
		}
		return nil
	})
}

// A kind that is watched by its metadata only is read whole from the server.
func TestWhatIsWatchedByMetadataIsReadWhole(t *testing.T) {
	w := newWorld(t, ctrl.NewManager, options(t))
	c, tried := w.manager.GetClient(), make(chan error, 1)
	b := ctrl.NewControllerManagedBy(w.manager).For(&v1.WebPage{}, builder.OnlyMetadata).Owns(&corev1.ConfigMap{}, builder.OnlyMetadata)
	if err := b.Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
		page, m, all, metadata := &v1.WebPage{}, &corev1.ConfigMap{}, &corev1.ConfigMapList{}, &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		key := client.ObjectKey{Namespace: "default", Name: "a"}
		err := errors.Join(c.Get(ctx, r.NamespacedName, page), c.Get(ctx, key, m), c.List(ctx, all), c.Get(ctx, key, metadata))
		if err == nil && (page.Spec.HTML != "x" || m.Data["color"] != "red" || len(all.Items) != 1 || all.Items[0].Data["color"] != "red" || metadata.Labels["color"] != "red") {
			err = fmt.Errorf("read %+v, %+v, %+v, %+v", page.Spec, m.Data, all.Items, metadata)
		}
		select {
		case tried <- err:
		default:
		}
		return ctrl.Result{}, nil
	})); err != nil {
		t.Fatal(err)
	}
	if err := w.admin.Create(t.Context(), configMap("default", "a", "red")); err != nil {
		t.Fatal(err)
	}
	w.create("p", "x")
	w.start()
	if err := <-tried; err != nil {
		t.Error(err)
	}
}
