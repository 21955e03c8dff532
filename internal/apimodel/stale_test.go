package apimodel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// shown returns what a request shows: the html of each page with its name, after the events' types.
func shown(t *testing.T, w *world, path string) string {
	t.Helper()
	if strings.Contains(path, "watch=true") {
		var all []string
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, e := range w.watchOnce(ctx, path, "none") {
			all = append(all, e.Type+" "+htmlOf(e.Object.Object))
		}
		return strings.Join(all, ", ")
	}
	code, answer, err := w.send("GET", path, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if code != 200 {
		return fmt.Sprint(code)
	}
	items, isList := answer["items"].([]any)
	if !isList {
		return htmlOf(answer)
	}
	var all []string
	for _, item := range items {
		all = append(all, htmlOf(item.(map[string]any)))
	}
	return strings.Join(all, ", ")
}

func htmlOf(o map[string]any) string {
	spec, hasSpec := o["spec"].(map[string]any)
	if !hasSpec {
		return "no spec"
	}
	return fmt.Sprint(o["metadata"].(map[string]any)["name"], "=", spec["html"])
}

func TestOnlyThoseWhoAcceptAnyVersionSeeTheStatePast(t *testing.T) {
	const (
		initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		pages   = "/apis/samples.evenkeel.dev/v1/namespaces/default/webpages"
	)
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		w := newWorld(t, model.Config())
		objects := client(t, model).Resource(pageGVR).Namespace("default")
		change := func(name, html string) {
			o := page(name)
			o.Object["spec"] = map[string]any{"html": html}
			if _, err := objects.Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "m", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		change("a", "1")
		change("gone", "1")
		time.Sleep(time.Hour)
		change("a", "2")
		change("b", "1")
		if err := objects.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		model.Stale(time.Minute)
		old, now := "a=1, gone=1", "a=2, b=1"
		catchUp := "ADDED a=1, ADDED gone=1, MODIFIED a=2, ADDED b=1, DELETED gone=1"
		for _, c := range []struct{ path, want string }{
			{pages, now},
			{pages + "?resourceVersion=0", old},
			{pages + "?resourceVersion=4", now},
			{pages + "/a", "a=2"},
			{pages + "/a?resourceVersion=0", "a=1"},
			{pages + "/b?resourceVersion=0", "404"},
			{pages + "/gone?resourceVersion=0", "gone=1"},
			{pages + "/gone", "404"},
			{pages + "?watch=true", catchUp},
			{pages + "?watch=true&resourceVersion=0", catchUp},
			{pages + "?watch=true&resourceVersion=4", "ADDED b=1, DELETED gone=1"},
			{pages + "?watch=true" + initial, "ADDED a=2, ADDED b=1, BOOKMARK no spec"},
			{
				pages + "?watch=true&resourceVersion=0" + initial,
				"ADDED a=1, ADDED gone=1, BOOKMARK no spec, MODIFIED a=2, ADDED b=1, DELETED gone=1",
			},
		} {
			if got := shown(t, w, c.path); got != c.want {
				t.Errorf("%s\nshows %s\nwant  %s", c.path, got, c.want)
			}
		}
		model.Stale(0)
		if got := shown(t, w, pages+"?resourceVersion=0"); got != now {
			t.Errorf("after it ended: %s", got)
		}
	})
}

func TestAStaleStateIsNotOlderThanTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		w := newWorld(t, model.Config())
		pages := client(t, model).Resource(pageGVR).Namespace("default")
		if _, err := pages.Create(t.Context(), page("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		model.Stale(time.Hour)
		const path = "/apis/samples.evenkeel.dev/v1/webpages?resourceVersion=0"
		if got := shown(t, w, path); got != "" {
			t.Errorf("an hour ago there was nothing, but the list has %s", got)
		}
		model.Expire("webpages")
		if got := shown(t, w, path); got != "a=<html/>" {
			t.Errorf("a list of an expired state: %q", got)
		}
	})
}

// TestVersionsMayBeginLater compares all that has to do with versions.
func TestVersionsMayBeginLater(t *testing.T) {
	const first = 100_000
	synctest.Test(t, func(t *testing.T) {
		model, err := apimodel.New(apimodel.Options{FirstVersion: first})
		if err != nil {
			t.Fatal(err)
		}
		maps := client(t, model).Resource(configMapGVR).Namespace("default")
		list := func(options metav1.ListOptions) string {
			t.Helper()
			found, err := maps.List(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(found.GetResourceVersion(), " with ", len(found.Items))
		}
		if got := list(metav1.ListOptions{}); got != "100000 with 0" {
			t.Errorf("an empty list has %s", got)
		}
		time.Sleep(time.Hour)
		if got := create(t, maps, "a").GetResourceVersion(); got != "100001" {
			t.Errorf("the first object has %s", got)
		}
		create(t, maps, "b")
		model.Stale(time.Minute)
		if got := list(metav1.ListOptions{ResourceVersion: "0"}); got != "100000 with 0" {
			t.Errorf("a stale list has %s", got)
		}
		model.Stale(0)
		if _, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "100003"}); !apierrors.IsTimeout(err) {
			t.Errorf("a list of the future: %v", err)
		}
		expect(t, open(t, maps, metav1.ListOptions{ResourceVersion: "100000"}), "from the first version", false, watch.Added, watch.Added)
		expect(t, open(t, maps, metav1.ListOptions{ResourceVersion: "100001"}), "from the next", false, watch.Added)
		expect(t, open(t, maps, metav1.ListOptions{ResourceVersion: "99999"}), "from before the first", true, watch.Error)
		future := open(t, maps, metav1.ListOptions{ResourceVersion: "100003"})
		create(t, maps, "c")
		expect(t, future, "up to its version", false)
		create(t, maps, "d")
		expect(t, future, "after its version", false, watch.Added)
		for after, want := range map[int64]int{0: 4, first: 4, first + 1: 3, first + 9: 0} {
			if got := len(model.Since(after)); got != want {
				t.Errorf("%d commits since %d, want %d", got, after, want)
			}
		}
	})
}

func TestTheBookmarksOfLaterVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, err := apimodel.New(apimodel.Options{FirstVersion: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		maps := client(t, model).Resource(configMapGVR).Namespace("default")
		initial := true
		w := open(t, maps, metav1.ListOptions{
			AllowWatchBookmarks: true, SendInitialEvents: &initial, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		for _, want := range []string{"100000", "100001", "100001"} {
			e := <-w.ResultChan()
			if got := e.Object.(*unstructured.Unstructured).GetResourceVersion(); got != want {
				t.Errorf("%s with %s, want %s", e.Type, got, want)
			}
			if want == "100000" {
				create(t, maps, "a")
			}
		}
	})
}

func TestAVersionIsNotNegative(t *testing.T) {
	if _, err := apimodel.New(apimodel.Options{FirstVersion: -1}); err == nil {
		t.Error("a model that begins before nothing")
	}
}
