package events_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// offers counts what was offered, and tells when there are as many as a round has events.
type offers struct {
	left atomic.Int64
	done chan struct{}
}

func newOffers() *offers { return &offers{done: make(chan struct{}, 1)} }

func (o *offers) one() {
	if o.left.Add(-1) == 0 {
		o.done <- struct{}{}
	}
}

// making starts a contender, which ends with ctx, and returns when it has taken in the first list.
type making func(ctx context.Context, t testing.TB, f *feed, o *offers)

var contenders = []struct {
	name string
	make making
}{{"evenkeel", newOurs}, {"controller-runtime", newPeer}, {"client-go", newClientGo}, {"reflector", newReflector}}

var owner = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// newOurs is a store with an informer source, as the framework sets them up for a Secondary.
func newOurs(ctx context.Context, t testing.TB, f *feed, o *offers) {
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	informer := eventsource.NewInformer(store, eventsource.InformerOptions{
		Name: "configmap", Index: "controller/configmap", Kind: "ConfigMap", Map: eventsource.OwnedBy(owner, false),
	})
	if _, err := informer.Start(ourSink{o}); err != nil {
		t.Fatal(err)
	}
	go store.Run(ctx, trc.Watched{From: f, Expected: &corev1.ConfigMap{}})
	<-store.Synced()
}

type ourSink struct{ *offers }

func (s ourSink) Offer(trc.Key, eventsource.Offer) { s.one() }

// listWatch is the feed as client-go takes it.
func listWatch(f *feed) *cache.ListWatch {
	return &cache.ListWatch{ListWithContextFunc: f.List, WatchFuncWithContext: f.Watch}
}

// newInformer is client-go's, with the index that controller-runtime gives it.
func newInformer(f *feed) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(listWatch(f), &corev1.ConfigMap{}, 10*time.Hour, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
}

// newPeer is controller-runtime's source over such an informer: what source.Kind does with that of
// its cache.
func newPeer(ctx context.Context, t testing.TB, f *feed, o *offers) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	informer := newInformer(f)
	kind := &source.Informer{Informer: informer, Handler: handler.EnqueueRequestForOwner(scheme.Scheme, mapper, &appsv1.Deployment{})}
	if err := kind.Start(ctx, peerQueue{offers: o}); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
}

type peerQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	*offers
}

func (q peerQueue) Add(reconcile.Request) { q.one() }

// newClientGo is an informer with a handler that maps by hand.
func newClientGo(ctx context.Context, t testing.TB, f *feed, o *offers) {
	informer := newInformer(f)
	offer := func(states ...any) {
		due := map[cache.ObjectName]bool{}
		for _, state := range states {
			if gone, ok := state.(cache.DeletedFinalStateUnknown); ok {
				state = gone.Obj
			}
			m := state.(*corev1.ConfigMap)
			for _, reference := range m.OwnerReferences {
				gv, err := schema.ParseGroupVersion(reference.APIVersion)
				if err == nil && gv.Group == owner.Group && reference.Kind == owner.Kind {
					due[cache.NewObjectName(m.Namespace, reference.Name)] = true
				}
			}
		}
		for range due {
			o.one()
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(new any) { offer(new) },
		UpdateFunc: func(old, new any) { offer(old, new) },
		DeleteFunc: func(old any) { offer(old) },
	})
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
}

// newReflector is what all of them have: a reflector, with a store that does nothing.
func newReflector(ctx context.Context, _ testing.TB, f *feed, o *offers) {
	listed := make(chan struct{})
	go cache.NewReflectorWithOptions(listWatch(f), &corev1.ConfigMap{}, nothing{o, listed}, cache.ReflectorOptions{}).RunWithContext(ctx)
	<-listed
	for range objects {
		o.one()
	}
}

type nothing struct {
	*offers
	listed chan struct{}
}

func (n nothing) Add(any) error               { n.one(); return nil }
func (n nothing) Update(any) error            { n.one(); return nil }
func (n nothing) Delete(any) error            { n.one(); return nil }
func (n nothing) Replace([]any, string) error { close(n.listed); return nil }
func (n nothing) Resync() error               { return nil }
