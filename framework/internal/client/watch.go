package client

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// mappedWatch passes the objects of events through a function. Unlike watch.Filter it ends when it
// is stopped, even if nobody receives an event.
type mappedWatch struct {
	from    watch.Interface
	results chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newMappedWatch(from watch.Interface, change func(*watch.Event)) *mappedWatch {
	w := &mappedWatch{from: from, results: make(chan watch.Event), stopped: make(chan struct{})}
	go w.pass(change)
	return w
}

func (w *mappedWatch) pass(change func(*watch.Event)) {
	defer close(w.results)
	for event := range w.from.ResultChan() {
		change(&event)
		select {
		case w.results <- event:
		case <-w.stopped:
			return
		}
	}
}

// Stop ends the watch.
func (w *mappedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.from.Stop()
}

// ResultChan returns the events.
func (w *mappedWatch) ResultChan() <-chan watch.Event { return w.results }

// eventsOf returns the events of a watch of metadata with the kind of the objects, and those of a
// watch of Secrets without texts that may quote one.
func (l ListWatch) eventsOf(events watch.Interface) watch.Interface {
	metadata, secret := l.Form == object.Metadata, isSecret(l.GVK)
	if !metadata && !secret {
		return events
	}
	return newMappedWatch(events, func(event *watch.Event) {
		if only, ok := event.Object.(*metav1.PartialObjectMetadata); ok && metadata {
			only.SetGroupVersionKind(l.GVK)
		}
		if failure, ok := event.Object.(*metav1.Status); ok && secret {
			event.Object = discreetStatus(l.GVK, failure)
		}
	})
}
