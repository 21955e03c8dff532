package faultproxy_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

func TestAWatchPassesEventByEvent(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		w := b.listed("a")
		big := configMap("big")
		big.Data = map[string]string{"big": strings.Repeat("x", 300_000)}
		_, err := b.around.Create(b.ctx, big, metav1.CreateOptions{})
		must(t, err)
		b.wants(w, watch.Added, "big")
		must(t, b.around.Delete(b.ctx, "big", metav1.DeleteOptions{}))
		b.wants(w, watch.Deleted, "big")
		if log := b.proxy.Log(); len(log) != 0 {
			t.Errorf("something was done: %v", log)
		}
	})
}

func TestALaggingWatchDeliversLaterAndInOrder(t *testing.T) {
	const lag = 200 * time.Millisecond
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		must(t, b.proxy.Set(faultproxy.Lag("the fault", lag, "configmaps")))
		w := b.listed("a")
		start := time.Now()
		b.create("b", "c", "d")
		for _, name := range []string{"b", "c", "d"} {
			b.wants(w, watch.Added, name)
			if since := time.Since(start); since < lag {
				t.Errorf("%s came after %v", name, since)
			}
		}
		must(t, b.proxy.Set(faultproxy.Lag("the fault", time.Hour, "configmaps")))
		b.create("e")
		b.release()
		b.wants(w, watch.Added, "e")
	})
}

func TestAStalledWatchGoesOnWhenReleased(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		unaffected := b.listed("a")
		must(t, b.proxy.Set(faultproxy.Rule{
			Name: "the fault", Match: faultproxy.Match{Resources: []string{"configmaps"}},
			When: faultproxy.When{Nth: 2}, Do: faultproxy.Action{Stall: true},
		}))
		w := b.listed("a")
		b.acted(1)
		b.create("b", "c")
		b.wants(unaffected, watch.Added, "b")
		b.wants(unaffected, watch.Added, "c")
		b.wantsNothing(w)
		b.release()
		b.wants(w, watch.Added, "b")
		b.wants(w, watch.Added, "c")
	})
}

func TestAFaultIsLaidOnOpenWatches(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		w := b.listed()
		b.set(faultproxy.Action{Expire: &faultproxy.Expire{}})
		b.wantsExpiry(w)
	})
}

func TestAWatchExpiresAfterEvents(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		b.set(faultproxy.Action{Expire: &faultproxy.Expire{Events: 2}})
		w := b.listed("a")
		b.create("b", "c", "d")
		b.wants(w, watch.Added, "b")
		b.wants(w, watch.Added, "c")
		b.wantsExpiry(w)
		if log := b.proxy.Log(); len(log) != 2 || log[0].Ended || !log[1].Ended || log[1].Action != "expire" {
			t.Errorf("log: %v", log)
		}
	})
}

func TestAWatchIsCut(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		for _, clean := range []bool{false, true} {
			b.set(faultproxy.Action{Cut: &faultproxy.Cut{Events: 1, Clean: clean}})
			w := b.watch()
			for e := b.next(w); e.Type != watch.Bookmark; e = b.next(w) {
			}
			name := map[bool]string{true: "clean", false: "broken"}[clean]
			b.create(name)
			b.wants(w, watch.Added, name)
			b.wantsEnd(w, !clean)
		}
		b.set(faultproxy.Action{Cut: &faultproxy.Cut{After: faultproxy.Duration(10 * time.Millisecond), Clean: true}})
		w := b.listed("broken", "clean")
		b.wantsEnd(w, false)
	})
}

func TestAHalfOpenWatchStaysSilentUntilReleased(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		b.set(faultproxy.Action{HalfOpen: true})
		w := b.listed("a")
		b.create("b")
		b.wantsNothing(w)
		b.release()
		b.wantsEnd(w, true)
	})
}

func TestAHalfOpenWatchMayBeSoFromItsBeginning(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		b.set(faultproxy.Action{HalfOpen: true, Initial: true})
		w := b.watch()
		b.release()
		b.wantsEnd(w, true)
	})
}

func TestHiddenEventsAreAGap(t *testing.T) {
	forEachContentType(t, func(t *testing.T, b *bench) {
		b.create("a")
		b.set(faultproxy.Action{Hide: 2})
		w := b.listed("a")
		b.create("b")
		must(t, b.around.Delete(b.ctx, "b", metav1.DeleteOptions{}))
		b.wantsExpiry(w)
	})
}

// TestAReflectorRecoversFromEveryFaultOfItsWatch lets the library's own reflector meet each of
// them.
func TestAReflectorRecoversFromEveryFaultOfItsWatch(t *testing.T) {
	for name, do := range map[string]faultproxy.Action{
		"cut":     {Cut: &faultproxy.Cut{Events: 1}},
		"expire":  {Expire: &faultproxy.Expire{Events: 1}},
		"hide":    {Hide: 2},
		"refused": {Answer: &faultproxy.Answer{Status: 410}},
	} {
		t.Run(name, func(t *testing.T) {
			forEachContentType(t, func(t *testing.T, b *bench) {
				must(t, b.proxy.Set(faultproxy.Rule{
					Name: "the fault", Match: faultproxy.Match{Verbs: []string{"watch"}, Resources: []string{"configmaps"}},
					When: faultproxy.When{Times: 1}, Do: do,
				}))
				informer := cache.NewSharedInformer(b.listWatch(), &corev1.ConfigMap{}, 0)
				shown := make(chan string, 100)
				_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
					AddFunc: func(o any) { shown <- o.(*corev1.ConfigMap).Name },
				})
				must(t, err)
				var running sync.WaitGroup
				ctx, cancel := context.WithCancel(b.ctx)
				t.Cleanup(func() { cancel(); running.Wait() })
				running.Go(func() { informer.RunWithContext(ctx) })
				<-informer.HasSyncedChecker().Done() // the first list is spared, so that all of these are met
				b.create("b", "c", "d", "e")
				for seen := map[string]bool{}; len(seen) < 4; {
					select {
					case name := <-shown:
						seen[name] = true
					case <-b.ctx.Done():
						t.Fatalf("only %v are known; the proxy did %v", seen, b.proxy.Log())
					}
				}
			})
		})
	}
}

func (b *bench) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return b.through.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return b.through.Watch(ctx, options)
		},
	}
}

func TestTheProxySpeaksHTTP1Too(t *testing.T) {
	b := newBench(t, runtime.ContentTypeProtobuf, faultproxy.Plan{})
	config := b.proxy.Config()
	config.NextProtos = []string{"http/1.1"}
	b.through = clientset(t, config).CoreV1().ConfigMaps(b.ns)
	w := b.listed()
	b.create("a")
	b.wants(w, watch.Added, "a")
	b.set(faultproxy.Action{LoseAnswer: true}, "create")
	if _, err := b.through.Create(b.ctx, configMap("b"), metav1.CreateOptions{}); err == nil {
		t.Error("the answer came")
	}
	b.wants(w, watch.Added, "b")
	b.set(faultproxy.Action{Cut: &faultproxy.Cut{}}, "watch")
	b.wantsEnd(w, false) // client-go keeps quiet about a body that breaks off
}
