package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// truth watches until the test ends.
func truth(t *testing.T, ctx context.Context, from int64) *testenv.Truth {
	t.Helper()
	truth, err := env.TruthFrom(ctx, from)
	must(t, err)
	t.Cleanup(func() { must(t, truth.Stop()) })
	return truth
}

// eventsOf returns those of a namespace.
func eventsOf(truth *testenv.Truth, ns string) []testenv.Event {
	return slices.DeleteFunc(truth.Events(), func(e testenv.Event) bool { return !strings.Contains(e.Key, "/"+ns+"/") })
}

func revision(t *testing.T, object metav1.Object) int64 {
	t.Helper()
	n, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	must(t, err)
	return n
}

func TestTruthTellsEveryWriteInOrder(t *testing.T) {
	ctx, client, ns := start(t)
	truth := truth(t, ctx, 0)
	maps := client.CoreV1().ConfigMaps(ns)
	created, err := maps.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	must(t, err)
	updated, err := maps.Update(ctx, configMap("a", "2"), metav1.UpdateOptions{})
	must(t, err)
	must(t, maps.Delete(ctx, "a", metav1.DeleteOptions{}))
	must(t, truth.WaitNow(ctx))

	events := eventsOf(truth, ns)
	if len(events) != 3 {
		t.Fatalf("%d events: %v", len(events), events)
	}
	for i, want := range []struct {
		revision int64
		deleted  bool
		data     string
	}{
		{revision(t, created), false, "1"},
		{revision(t, updated), false, "2"},
		{0, true, "2"},
	} {
		e := events[i]
		if e.Key != "/registry/configmaps/"+ns+"/a" || e.Deleted != want.deleted || e.CreateRevision != revision(t, created) || (want.revision != 0 && e.Revision != want.revision) {
			t.Errorf("event %d: %v, want revision %d", i, e, want.revision)
		}
		object, err := e.Object()
		must(t, err)
		stored, ok := object.(*corev1.ConfigMap)
		if !ok || stored.Data["data"] != want.data || revision(t, stored) != e.Revision || stored.UID != created.UID {
			t.Errorf("event %d: %+v", i, object)
		}
	}
	if events[2].Revision <= events[1].Revision {
		t.Errorf("the deletion is not the last: %v", events)
	}
}

func createPage(t *testing.T, config *rest.Config, ns, name string) *unstructured.Unstructured {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	pages := schema.GroupVersionResource{Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages"}
	page, err := client.Resource(pages).Namespace(ns).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": pages.GroupVersion().String(), "kind": "WebPage",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"html": "<html/>"},
	}}, metav1.CreateOptions{})
	must(t, err)
	return page
}

func TestTruthDecodesCustomResources(t *testing.T) {
	ctx, _, ns := start(t)
	truth := truth(t, ctx, 0)
	page := createPage(t, env.Config, ns, "a")
	must(t, truth.Wait(ctx, revision(t, page)))
	events := eventsOf(truth, ns)
	if len(events) != 1 {
		t.Fatalf("events: %v", events)
	}
	object, err := events[0].Object()
	must(t, err)
	if stored, ok := object.(*unstructured.Unstructured); !ok || stored.GetUID() != page.GetUID() || stored.GetKind() != "WebPage" {
		t.Errorf("%+v", object)
	}
}

// TestTruthCountsObjectsAtEveryRevision is what the truth is for: some of these Pods are there at
// the same time.
func TestTruthCountsObjectsAtEveryRevision(t *testing.T) {
	ctx, client, ns := start(t)
	truth := truth(t, ctx, 0)
	var writers sync.WaitGroup
	for _, owner := range []string{"one", "two"} {
		writers.Go(func() {
			for i := range 3 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Name:            fmt.Sprintf("%s-%d", owner, i),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner)}},
				}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
				if _, err := client.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				// "one" removes its Pod before it makes the next.
				if owner == "one" {
					if err := client.CoreV1().Pods(ns).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	must(t, truth.WaitNow(ctx))
	most := map[types.UID]int{}
	truth.Replay("/registry/pods/"+ns+"/", func(_ int64, live map[string]testenv.Event) {
		now := map[types.UID]int{}
		for _, e := range live {
			object, err := e.Object()
			must(t, err)
			owner := object.(*corev1.Pod).OwnerReferences[0].UID
			now[owner]++
			most[owner] = max(most[owner], now[owner])
		}
	})
	if most["one"] != 1 || most["two"] != 3 {
		t.Errorf("most Pods per owner: %v", most)
	}
}

func TestTruthKnowsThePast(t *testing.T) {
	ctx, _, ns := start(t)
	truth := truth(t, ctx, 1)
	must(t, truth.WaitNow(ctx))
	events := truth.Events()
	if !slices.ContainsFunc(events, func(e testenv.Event) bool { return e.Key == "/registry/namespaces/"+ns }) {
		t.Errorf("the namespace is not among %d events", len(events))
	}
	if !slices.IsSortedFunc(events, func(a, b testenv.Event) int { return int(a.Revision - b.Revision) }) {
		t.Error("the events are not in order")
	}
}

func TestWaitingForTheTruthEnds(t *testing.T) {
	ctx, _, _ := start(t)
	truth, err := env.Truth(ctx)
	must(t, err)
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := truth.Wait(done, 1<<40); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	must(t, truth.Stop())
	if err := truth.Wait(ctx, 1<<40); err == nil {
		t.Error("waiting for a stopped truth succeeds")
	}
}
