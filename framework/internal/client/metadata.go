package client

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// metadataWatch sets the kind of metadata-only objects. Unlike watch.Filter it ends when it is
// stopped, even if nobody receives an event.
type metadataWatch struct {
	from    watch.Interface
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newMetadataWatch(from watch.Interface, gvk schema.GroupVersionKind) *metadataWatch {
	w := &metadataWatch{from: from, results: make(chan watch.Event), stopped: make(chan struct{})}
	go w.pass(gvk)
	return w
}

func (w *metadataWatch) pass(gvk schema.GroupVersionKind) {
	defer close(w.results)
	for event := range w.from.ResultChan() {
		if only, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
			only.SetGroupVersionKind(gvk)
		}
		select {
		case w.results <- event:
		case <-w.stopped:
			return
		}
	}
}

// Stop ends the watch.
func (w *metadataWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.from.Stop()
}

// ResultChan returns the events.
func (w *metadataWatch) ResultChan() <-chan watch.Event { return w.results }
