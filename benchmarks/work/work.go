package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// Finalizer is what contenders put on that are free to name it.
const Finalizer = "samples.evenkeel.dev/compare"

// html is of the size of a small page.
var html = "<!doctype html><html><head><title>a page</title></head><body>" + strings.Repeat("<p>words</p>", 40) + "</body></html>"

// Scheme knows the types that the work is about.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1.AddToScheme(scheme))
}

// ConfigMap is what a page needs, without its owner.
func ConfigMap(page *v1.WebPage) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: page.Namespace, Name: page.Name,
			Labels: map[string]string{"app.kubernetes.io/instance": page.Name},
		},
		Data: map[string]string{"index.html": page.Spec.HTML},
	}
}

// SetStatus writes into page what its status is to be.
func SetStatus(page *v1.WebPage) {
	page.Status.URL = "http://" + page.Name + "." + page.Namespace + ".svc/"
	page.Status.ObservedGeneration = page.Generation
}

// Create makes a fresh namespace of that name with so many pages.
func Create(ctx context.Context, admin client.Client, namespace string, pages int) error {
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("work: create namespace %s: %w", namespace, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range pages {
		group.Go(func() error {
			page := &v1.WebPage{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("page-%05d", i)},
				Spec:       v1.WebPageSpec{HTML: html},
			}
			if err := admin.Create(ctx, page); err != nil {
				return fmt.Errorf("work: create page %s: %w", page.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Check returns an error that says what is missing of the work on the pages of a namespace.
func Check(ctx context.Context, admin client.Client, namespace string, pages int) error {
	var all v1.WebPageList
	var configMaps corev1.ConfigMapList
	for _, list := range []client.ObjectList{&all, &configMaps} {
		if err := admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("work: check namespace %s: %w", namespace, err)
		}
	}
	made := make(map[string]*corev1.ConfigMap, len(configMaps.Items))
	for i := range configMaps.Items {
		made[configMaps.Items[i].Name] = &configMaps.Items[i]
	}
	if len(all.Items) != pages {
		return fmt.Errorf("work: check namespace %s: %d pages, not %d", namespace, len(all.Items), pages)
	}
	for i := range all.Items {
		if err := check(&all.Items[i], made[all.Items[i].Name]); err != nil {
			return fmt.Errorf("work: check page %s/%s: %w", namespace, all.Items[i].Name, err)
		}
	}
	return nil
}

func check(page *v1.WebPage, configMap *corev1.ConfigMap) error {
	switch {
	case len(page.Finalizers) != 1:
		return fmt.Errorf("finalizers %q", page.Finalizers)
	case page.Status.ObservedGeneration != page.Generation || page.Status.URL == "":
		return fmt.Errorf("status %+v", page.Status)
	case configMap == nil:
		return errors.New("no ConfigMap")
	case !metav1.IsControlledBy(configMap, page):
		return fmt.Errorf("ConfigMap is owned by %v", configMap.OwnerReferences)
	case configMap.Data["index.html"] != page.Spec.HTML:
		return errors.New("ConfigMap holds something else")
	}
	return nil
}
