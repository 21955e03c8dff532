package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/evenkeel/evenkeel/framework/workflow"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/samples/webpage/config"
)

// cluster is the API server as a person with an administrator's rights sees it.
type cluster struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// kinds are the kinds that the operator and Kubernetes create for a page, in the order of the
// table.
var kinds = []schema.GroupVersionResource{
	{Group: "", Version: "v1", Resource: "configmaps"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "", Version: "v1", Resource: "pods"},
	{Group: "", Version: "v1", Resource: "services"},
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
}

var pagesResource = v1.GroupVersion.WithResource("webpages")

// ofTheSample selects the objects of these kinds: the operator sets this label.
const ofTheSample = "app.kubernetes.io/name=webpage"

func newCluster(config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no client-side limit: it would slow down the display, and change the figures
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &cluster{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, nil
}

// install applies CustomResourceDefinitions and rights, and waits until the kind is served.
func (c *cluster) install(ctx context.Context) error {
	for _, folder := range []string{"crd/bases", "rbac"} {
		if _, err := c.applyFolder(ctx, folder); err != nil {
			return err
		}
	}
	// A new CustomResourceDefinition is served a moment after it was created; there is nothing to
	// watch before that.
	var err error
	for range 100 {
		if _, err = c.client.Resource(pagesResource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			c.mapper.Reset()
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("webpages are not served: %w", err)
}

func (c *cluster) applyPages(ctx context.Context) (int, error) { return c.applyFolder(ctx, "samples") }

// applyFolder applies every object of the embedded folder, and returns their number.
func (c *cluster) applyFolder(ctx context.Context, folder string) (int, error) {
	files, err := fs.ReadDir(config.Files, folder)
	if err != nil {
		return 0, err
	}
	applied := 0
	for _, file := range files {
		content, err := fs.ReadFile(config.Files, folder+"/"+file.Name())
		if err != nil {
			return applied, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var o unstructured.Unstructured
			if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return applied, fmt.Errorf("%s: %w", file.Name(), err)
			}
			if len(o.Object) == 0 {
				continue
			}
			if err := c.apply(ctx, &o); err != nil {
				return applied, fmt.Errorf("%s: %w", file.Name(), err)
			}
			applied++
		}
	}
	return applied, nil
}

func (c *cluster) apply(ctx context.Context, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = c.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == apimeta.RESTScopeNameNamespace {
		resource = c.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "demo", Force: true})
	return err
}

func (c *cluster) deletePages(ctx context.Context) error {
	pages, err := c.client.Resource(pagesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range pages.Items {
		err := c.client.Resource(pagesResource).Namespace(p.GetNamespace()).Delete(ctx, p.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// view is what a person sees at one moment.
type view struct {
	pages    []v1.WebPage
	objects  map[string]int // by resource
	counts   map[string]count
	requests int
	// workflows are the newest results, by page.
	workflows map[string]*workflow.Result
}

func (c *cluster) view(ctx context.Context) (view, error) {
	v := view{objects: map[string]int{}}
	pages, err := c.client.Resource(pagesResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	for _, item := range pages.Items {
		var p v1.WebPage
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &p); err != nil {
			return v, err
		}
		v.pages = append(v.pages, p)
	}
	for _, kind := range kinds {
		list, err := c.client.Resource(kind).List(ctx, metav1.ListOptions{LabelSelector: ofTheSample})
		if err != nil {
			return v, err
		}
		v.objects[kind.Resource] = len(list.Items)
	}
	return v, nil
}

// leftovers counts the objects of the pages that still exist.
func (c *cluster) leftovers(ctx context.Context) (total int, byKind string, err error) {
	v, err := c.view(ctx)
	if err != nil {
		return 0, "", err
	}
	kinds := []string{fmt.Sprintf("%d webpages", len(v.pages))}
	total = len(v.pages)
	for kind, n := range v.objects {
		total += n
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	return total, strings.Join(kinds, ", "), nil
}

func allReady(v view) bool {
	for i := range v.pages {
		c := apimeta.FindStatusCondition(v.pages[i].Status.Conditions, "Ready")
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != v.pages[i].Generation {
			return false
		}
	}
	return len(v.pages) > 0
}

func nothingLeft(v view) bool {
	for _, n := range v.objects {
		if n > 0 {
			return false
		}
	}
	return len(v.pages) == 0
}

func age(p *v1.WebPage) time.Duration {
	return time.Since(p.CreationTimestamp.Time).Round(time.Second)
}
