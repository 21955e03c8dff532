package trc

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// listed returns what a Reflector lists from. With a page size, lists are not streamed.
func (w Watched) listerWatcher(lw *cache.ListWatch) cache.ListerWatcher {
	if w.PageSize <= 0 {
		return lw
	}
	return cache.ToListWatcherWithWatchListSemantics(lw, unstreamed{})
}

// unstreamed disables streamed lists in client-go.
type unstreamed struct{}

// IsWatchListSemanticsUnSupported is the method that client-go checks for.
func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// page is a list of objects that were prepared for the store.
type page struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject copies the page and shares its objects.
func (p *page) DeepCopyObject() runtime.Object {
	return &page{TypeMeta: p.TypeMeta, ListMeta: *p.ListMeta.DeepCopy(), Items: append([]runtime.Object(nil), p.Items...)}
}

// GetObjectKind returns the kind of the list.
func (p *page) GetObjectKind() schema.ObjectKind { return &p.TypeMeta }

// keepPage prepares the objects of a page for the store and releases the memory that they were
// decoded into.
func (w *Watch) keepPage(list runtime.Object) (runtime.Object, error) {
	of, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	kept := &page{ListMeta: metav1.ListMeta{
		ResourceVersion: of.GetResourceVersion(), Continue: of.GetContinue(), RemainingItemCount: of.GetRemainingItemCount(),
	}}
	transform := w.Transformer()
	if kept.Items, err = meta.ExtractListWithAlloc(list); err != nil {
		return nil, err
	}
	for i, item := range kept.Items {
		one, err := transform(item)
		if err != nil {
			return nil, err
		}
		kept.Items[i] = one.(runtime.Object)
	}
	return kept, nil
}
