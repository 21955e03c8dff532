package behindtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

var (
	podKind      = corev1.SchemeGroupVersion.WithKind("Pod")
	databaseKind = corev1.SchemeGroupVersion.WithKind("Secret")
	appKind      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
)

// thing is an object of a life, as a watch has shown it so far.
type thing struct {
	kind, name string
	uid        types.UID
	// uses is the database of a Pod, or of a ReplicaSet's Pods.
	uses string
	// born, leaving, ended and gone are the resource versions at which it was created, its deletion
	// was requested, it was a Pod that had succeeded or failed, and was removed; 0 if that has not
	// been seen.
	born, leaving, ended, gone int64
	// now is its newest version. It must not be changed.
	now *unstructured.Unstructured
}

func (t *thing) String() string {
	text := fmt.Sprintf("%s %s %s", t.kind, t.name, t.uid)
	if t.uses != "" {
		text += " on " + t.uses
	}
	text += fmt.Sprintf(": created at %d", t.born)
	at := func(what string, revision int64) {
		if revision != 0 {
			text += fmt.Sprintf(", %s at %d", what, revision)
		}
	}
	at("in deletion", t.leaving)
	at("ended", t.ended)
	at("gone", t.gone)
	if t.gone == 0 && t.now != nil {
		text += fmt.Sprintf(", finalizers %v", t.now.GetFinalizers())
		for _, owner := range t.now.GetOwnerReferences() {
			text += fmt.Sprintf(", of %s %s", owner.Kind, owner.UID)
		}
	}
	return text
}

// observer records what becomes of all objects of the lives.
type observer struct {
	mu sync.Mutex // guards below
	// lives are the things of each life, in the order in which they were first seen.
	lives  map[string][]*thing
	byUID  map[types.UID]*thing
	failed error
	// changed has a channel for each life that waits. It is closed at the next event of the life.
	changed map[string]chan struct{}
}

// observe watches the kinds in a namespace that has no objects of a life yet, until the context
// ends.
func observe(ctx context.Context, ns string, kinds ...schema.GroupVersionKind) (*observer, error) {
	o := &observer{
		lives: map[string][]*thing{}, byUID: map[types.UID]*thing{},
		changed: map[string]chan struct{}{},
	}
	for _, kind := range kinds {
		watching, err := watchKind(ctx, ns, kind)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", kind, err)
		}
		go o.follow(ctx, kind, watching)
	}
	return o, nil
}

// watchKind returns a watch that goes on where it was if the server ends it, as it does when a
// client is slow.
func watchKind(ctx context.Context, ns string, kind schema.GroupVersionKind) (watch.Interface, error) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	objects := watches.Resource(resource).Namespace(ns)
	none, err := objects.List(ctx, metav1.ListOptions{LabelSelector: lifeLabel})
	if err != nil {
		return nil, err
	}
	from := func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.LabelSelector = lifeLabel
		return objects.Watch(ctx, options)
	}
	source := &cache.ListWatch{WatchFuncWithContext: from}
	return watchtools.NewRetryWatcherWithContext(ctx, none.GetResourceVersion(), source)
}

// follow records what a watch shows.
func (o *observer) follow(ctx context.Context, kind schema.GroupVersionKind, watching watch.Interface) {
	defer watching.Stop()
	for event := range watching.ResultChan() {
		object, is := event.Object.(*unstructured.Unstructured)
		if !is || event.Type == watch.Error {
			o.fail(fmt.Errorf("watch %s: %v", kind, event.Object))
			return
		}
		o.take(event.Type, object)
	}
	if ctx.Err() == nil {
		o.fail(fmt.Errorf("the watch of %s has ended", kind))
	}
}

// fail ends all waiting.
func (o *observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		o.failed = err
	}
	for life := range o.changed {
		o.wakeLocked(life)
	}
}

func (o *observer) take(event watch.EventType, object *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.takeLocked(event, object); err != nil && o.failed == nil {
		o.failed = err
	}
	o.wakeLocked(object.GetLabels()[lifeLabel])
}

// wakeLocked wakes a life that waits.
func (o *observer) wakeLocked(life string) {
	if waiting := o.changed[life]; waiting != nil {
		close(waiting)
		delete(o.changed, life)
	}
}

func (o *observer) takeLocked(event watch.EventType, object *unstructured.Unstructured) error {
	revision, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	t := o.byUID[object.GetUID()]
	if t == nil {
		t = &thing{
			kind: object.GetKind(), name: object.GetName(), uid: object.GetUID(), born: revision,
			uses: object.GetLabels()[databaseLabel],
		}
		o.byUID[object.GetUID()] = t
		life := object.GetLabels()[lifeLabel]
		o.lives[life] = append(o.lives[life], t)
	}
	first := func(seen *int64, is bool) {
		if is && *seen == 0 {
			*seen = revision
		}
	}
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	first(&t.leaving, object.GetDeletionTimestamp() != nil)
	first(&t.ended, phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed))
	first(&t.gone, event == watch.Deleted)
	t.now = object
	return nil
}

// until waits until a condition about the things of a life is met. It is asked again after each
// event. The things must not be kept, nor changed.
func (o *observer) until(
	ctx context.Context, life, what string, met func(all []*thing) bool,
) error {
	for {
		o.mu.Lock()
		isMet, failed, changed := met(o.lives[life]), o.failed, o.changed[life]
		if changed == nil {
			changed = make(chan struct{})
			o.changed[life] = changed
		}
		o.mu.Unlock()
		switch {
		case isMet:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}

// things returns copies of those of a life as they are now.
func (o *observer) things(life string) []*thing {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Clone(o.lives[life])
	for i, t := range all {
		copied := *t
		all[i] = &copied
	}
	return all
}

// those returns the things of a kind that are not gone.
func those(all []*thing, kind string) (found []*thing) {
	for _, t := range all {
		if t.kind == kind && t.gone == 0 {
			found = append(found, t)
		}
	}
	return found
}

// podsOf returns the Pods of a database that are not gone.
func podsOf(all []*thing, database string) []*thing {
	isOfAnother := func(t *thing) bool { return t.uses != database }
	return slices.DeleteFunc(those(all, podKind.Kind), isOfAnother)
}
