package contenders

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// raw makes the three writes of each object and nothing else: a PUT with the finalizer, a POST of
// the ConfigMap, a PUT of the status. It looks at nothing that happens meanwhile, so it is the
// floor and no operator.
type raw struct {
	// watches runs the informers an operator needs, and takes the pages from one of them.
	watches bool
	// apply makes the requests that our framework makes by default: a merge patch with the finalizer,
	// a server-side apply of the ConfigMap, a merge patch of the status.
	apply bool
}

func (r raw) run(ctx context.Context, config *rest.Config, task Task, tally *Tally) error {
	configMaps, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pages, err := pagesClient(config)
	if err != nil {
		return err
	}
	loop := rawLoop{raw: r, task: task, tally: tally, configMaps: configMaps, pages: pages}
	var todo []*v1.WebPage
	if r.watches {
		todo, err = loop.watch(ctx)
	} else {
		todo, err = loop.list(ctx)
	}
	if err == nil {
		err = loop.work(ctx, todo)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func pagesClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme, err := work.Scheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &v1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

type rawLoop struct {
	raw
	task       Task
	tally      *Tally
	configMaps kubernetes.Interface
	pages      *rest.RESTClient
}

func (l rawLoop) list(ctx context.Context) ([]*v1.WebPage, error) {
	var list v1.WebPageList
	if err := l.pages.Get().Namespace(l.task.Namespace).Resource("webpages").Do(ctx).Into(&list); err != nil {
		return nil, err
	}
	pages := make([]*v1.WebPage, len(list.Items))
	for i := range list.Items {
		pages[i] = &list.Items[i]
	}
	return pages, nil
}

// watch starts the informers and returns the pages of the first list.
func (l rawLoop) watch(ctx context.Context) ([]*v1.WebPage, error) {
	informers := map[string]cache.SharedIndexInformer{}
	for resource, of := range map[string]struct {
		client cache.Getter
		sample runtime.Object
	}{"webpages": {l.pages, &v1.WebPage{}}, "configmaps": {l.configMaps.CoreV1().RESTClient(), &corev1.ConfigMap{}}} {
		from := cache.NewListWatchFromClient(of.client, resource, l.task.Namespace, fields.Everything())
		informer := cache.NewSharedIndexInformer(from, of.sample, 0, cache.Indexers{})
		informers[resource] = informer
		go informer.RunWithContext(ctx)
	}
	for resource, informer := range informers {
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("contenders: raw: the informer of %s is not synced: %w", resource, ctx.Err())
		}
	}
	items := informers["webpages"].GetStore().List()
	pages := make([]*v1.WebPage, len(items))
	for i, item := range items {
		pages[i] = item.(*v1.WebPage)
	}
	return pages, nil
}

func (l rawLoop) work(ctx context.Context, todo []*v1.WebPage) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.task.Workers)
	for _, page := range todo {
		group.Go(func() error { return l.one(ctx, page.DeepCopy()) })
	}
	return group.Wait()
}

func (l rawLoop) one(ctx context.Context, page *v1.WebPage) error {
	defer l.tally.Run()()
	page.Finalizers = append(page.Finalizers, work.Finalizer)
	if err := l.writePage(ctx, page, map[string]any{"metadata": map[string]any{
		"finalizers": page.Finalizers, "uid": page.UID, "resourceVersion": page.ResourceVersion,
	}}); err != nil {
		return err
	}
	configMap := work.ConfigMap(page)
	configMap.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(page, v1.GroupVersion.WithKind("WebPage"))}
	if err := l.writeConfigMap(ctx, configMap); err != nil {
		return err
	}
	work.SetStatus(page)
	return l.writePage(ctx, page, map[string]any{
		"status": page.Status, "metadata": map[string]any{"uid": page.UID, "resourceVersion": page.ResourceVersion},
	}, "status")
}

// writePage sends the page, or the patch that comes to the same.
func (l rawLoop) writePage(ctx context.Context, page *v1.WebPage, patch map[string]any, subresource ...string) error {
	request := l.pages.Put().Body(page)
	if l.apply {
		body, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		request = l.pages.Patch(types.MergePatchType).Body(body)
	}
	return request.Namespace(page.Namespace).Resource("webpages").Name(page.Name).SubResource(subresource...).Do(ctx).Into(page)
}

func (l rawLoop) writeConfigMap(ctx context.Context, configMap *corev1.ConfigMap) error {
	client := l.configMaps.CoreV1().ConfigMaps(configMap.Namespace)
	if !l.apply {
		_, err := client.Create(ctx, configMap, metav1.CreateOptions{})
		return err
	}
	configMap.APIVersion, configMap.Kind = "v1", "ConfigMap"
	body, err := json.Marshal(configMap)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, configMap.Name, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "raw", Force: new(true)})
	return err
}
