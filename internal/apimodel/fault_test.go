package apimodel_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// bubble gives a model and a client of its ConfigMaps in virtual time. At its end all goroutines of
// the model must have ended, or synctest reports a deadlock.
func bubble(t *testing.T, f func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface)) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		f(t, model, client(t, model).Resource(configMapGVR).Namespace("default"))
	})
}

func create(t *testing.T, configMaps dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
	created, err := configMaps.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func open(t *testing.T, configMaps dynamic.ResourceInterface, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := configMaps.Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// seen returns what a watch has delivered by now, and whether it has ended.
func seen(w watch.Interface) (types []watch.EventType, ended bool) {
	for {
		synctest.Wait()
		select {
		case e, more := <-w.ResultChan():
			if !more {
				return types, true
			}
			types = append(types, e.Type)
		default:
			return types, false
		}
	}
}

func expect(t *testing.T, w watch.Interface, when string, end bool, want ...watch.EventType) {
	t.Helper()
	got, ended := seen(w)
	if !slices.Equal(got, want) || ended != end {
		t.Errorf("%s the watch says %v, ended %v; want %v, %v", when, got, ended, want, end)
	}
}

func TestLagDelaysEveryEvent(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		model.Lag("configmaps", time.Minute)
		w := open(t, configMaps, metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
		create(t, configMaps, "a")
		time.Sleep(30 * time.Second)
		create(t, configMaps, "b")
		time.Sleep(29 * time.Second)
		expect(t, w, "after 59 s", false)
		time.Sleep(2 * time.Second)
		expect(t, w, "after 61 s", false, watch.Added, watch.Bookmark)
		time.Sleep(30 * time.Second)
		expect(t, w, "after 91 s", false, watch.Added)
	})
}

func TestBookmarksDoNotOvertakeEvents(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		model.Lag("configmaps", time.Hour)
		w := open(t, configMaps, metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
		create(t, configMaps, "a")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		bookmark := <-w.ResultChan()
		if v := bookmark.Object.(*unstructured.Unstructured).GetResourceVersion(); bookmark.Type != watch.Bookmark || v != "1" {
			t.Errorf("%s at version %s before the event of version 2 was delivered", bookmark.Type, v)
		}
	})
}

func TestACutWatchCanBeResumedAndAnExpiredOneCannot(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		w := open(t, configMaps, metav1.ListOptions{ResourceVersion: "1"})
		model.Cut("configmaps")
		created := create(t, configMaps, "a")
		expect(t, w, "cut,", true)
		expect(t, open(t, configMaps, metav1.ListOptions{ResourceVersion: "1"}), "resumed,", false, watch.Added)

		model.Expire("configmaps")
		expired := open(t, configMaps, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
		synctest.Wait()
		e := <-expired.ResultChan()
		if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Errorf("an expired watch says %s %v", e.Type, err)
		}
		expect(t, expired, "expired,", true)
		list, err := configMaps.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		expect(t, open(t, configMaps, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}), "from a list after it,", false)
	})
}

func TestAStalledWatchIsSilentUntilItsRelease(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		before := open(t, configMaps, metav1.ListOptions{AllowWatchBookmarks: true})
		model.Stall("configmaps")
		during := open(t, configMaps, metav1.ListOptions{})
		create(t, configMaps, "a")
		time.Sleep(10 * time.Minute)
		expect(t, before, "stalled,", false)
		expect(t, during, "stalled,", false)
		model.Release("configmaps")
		expect(t, during, "released,", false, watch.Added)
		if types, _ := seen(before); len(types) == 0 || types[0] != watch.Added {
			t.Errorf("released, the watch says %v", types)
		}
	})
}

func TestWatchesEndWithTheirTimeoutAndContext(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		short := open(t, configMaps, metav1.ListOptions{TimeoutSeconds: new(int64(5))})
		ctx, cancel := context.WithCancel(t.Context())
		endless, err := configMaps.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		expect(t, short, "after its timeout", true)
		expect(t, endless, "before its end", false)
		cancel()
		expect(t, endless, "after its end", true, watch.Error) // so client-go shows a context that ended
		for range 3 {                                          // nobody reads them; Stop must be enough
			open(t, configMaps, metav1.ListOptions{})
		}
		for _, name := range []string{"a", "b", "c"} {
			create(t, configMaps, name)
		}
	})
}

func TestFaultsOfRequests(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		next := apimodel.Fault{}
		model.Intercept(func(apimodel.Request) (f apimodel.Fault) { f, next = next, f; return f })
		attempt := func(f apimodel.Fault, name string) error {
			next = f
			_, err := configMaps.Patch(t.Context(), name, types.ApplyYAMLPatchType,
				[]byte(`{"apiVersion":"v1","kind":"ConfigMap"}`), metav1.PatchOptions{FieldManager: "m"})
			return err
		}
		if err := attempt(apimodel.Fault{Drop: true}, "dropped"); !errors.Is(err, apimodel.ErrConnectionLost) {
			t.Error(err)
		}
		if err := attempt(apimodel.Fault{Lose: true}, "lost"); !errors.Is(err, apimodel.ErrConnectionLost) {
			t.Error(err)
		}
		conflict := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}
		if err := attempt(apimodel.Fault{Answer: &conflict}, "refused"); !apierrors.IsConflict(err) {
			t.Error(err)
		}
		busy := metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
			Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
		}
		start := time.Now()
		if err := attempt(apimodel.Fault{Answer: &busy, Delay: time.Second}, "busy"); err != nil || time.Since(start) != 8*time.Second {
			t.Error("a client that respects Retry-After took", time.Since(start), err)
		}
		var names []string
		for _, o := range model.Objects("configmaps") {
			names = append(names, o.GetName())
		}
		if !slices.Equal(names, []string{"busy", "lost"}) {
			t.Errorf("there are %v", names)
		}
	})
}

func TestHistorySaysWhoDidWhat(t *testing.T) {
	bubble(t, func(t *testing.T, model *apimodel.Model, configMaps dynamic.ResourceInterface) {
		create(t, configMaps, "a")
		if err := configMaps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		h := model.History()
		if len(h) != 2 || h[0].Event != watch.Added || h[1].Event != watch.Deleted || h[0].Verb != "create" || h[1].Verb != "delete" {
			t.Fatalf("%+v", h)
		}
		if h[0].Previous != nil || h[1].Previous != h[0].Object || h[1].Object.GetResourceVersion() != "3" || h[0].Manager == "" {
			t.Errorf("%+v", h)
		}
	})
}
