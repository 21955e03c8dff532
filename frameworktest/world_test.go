package frameworktest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// failuresOf returns the failures of a story of a site, without a fault.
func failuresOf(t *testing.T, story func(w *frameworktest.World)) []string {
	t.Helper()
	s := pair{story: story}.scenario(looksFirst)
	s.Points = []frameworktest.Point{}
	if found := s.Explore(t).Findings(); len(found) > 0 {
		return found[0].Failures
	}
	return nil
}

// untypedOf returns an object that no Go type restricts.
func untypedOf(apiVersion, kind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: content}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// TestAStoryThatMisspellsAFieldFails instead of writing nothing.
func TestAStoryThatMisspellsAFieldFails(t *testing.T) {
	const site = "test.evenkeel.dev/v1"
	merges := func(o *corev1.ConfigMap, patch string) func(w *frameworktest.World) {
		return func(w *frameworktest.World) { w.Create(o.DeepCopy()); w.Merge(o, patch) }
	}
	shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Data: map[string]string{"a": "1"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shared"}}
	hello := newSite("hello", "hi")
	for _, r := range []struct {
		name  string
		story func(w *frameworktest.World)
		says  string // empty: it passes
	}{
		{"a field", func(w *frameworktest.World) { w.Create(hello); w.Merge(hello, `{"spec":{"txet":"a"}}`) }, "story: merge *frameworktest_test.Site hello: the server dropped spec.txet: is it in the definition?"},
		{"a field that is false", func(w *frameworktest.World) { w.Create(hello); w.Merge(hello, `{"spec":{"exposed":false}}`) }, "dropped spec.exposed:"},
		{"a whole part", func(w *frameworktest.World) { w.Create(hello); w.Merge(hello, `{"sepc":{"text":"a"}}`) }, "dropped sepc:"},
		{"what is below a value", func(w *frameworktest.World) { w.Create(hello); w.MergeStatus(hello, `{"status":{"extra":{"id":"a"}}}`) }, "dropped status.extra:"},
		{"the status of a status", func(w *frameworktest.World) { w.Create(hello); w.Merge(hello, `{"status":{"token":"a"}}`) }, "MergeStatus writes the status"},
		{"a field of a kind of Kubernetes", merges(shared, `{"dta":{"a":"2"}}`), "dropped dta:"},
		{"an untyped object", func(w *frameworktest.World) {
			w.Create(untypedOf(site, "Site", "hello", map[string]any{"spec": map[string]any{"txet": "a"}}))
		}, "story: create *unstructured.Unstructured hello: the server dropped spec.txet:"},

		{"a change of the status in Edit", func(w *frameworktest.World) {
			w.Create(hello)
			frameworktest.Edit(w, hello, func(o *Site) { o.Spec.Text, o.Status.ID = "ho", "a" })
		}, "story: edit *frameworktest_test.Site hello: the server dropped status: MergeStatus writes the status"},
		{"a change of the status of an untyped object in Edit", func(w *frameworktest.World) {
			w.Create(hello)
			frameworktest.Edit(w, untypedOf(site, "Site", "hello", map[string]any{}), func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "a", "status", "token")
			})
		}, "the server dropped status: MergeStatus writes the status"},
		{"a field of an untyped object in Edit", func(w *frameworktest.World) {
			w.Create(hello)
			frameworktest.Edit(w, untypedOf(site, "Site", "hello", map[string]any{}), func(o *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(o.Object, "ho", "spec", "txet")
			})
		}, "story: edit *unstructured.Unstructured hello: the server dropped spec.txet:"},

		{"an Edit of what exists", func(w *frameworktest.World) {
			w.Create(hello)
			frameworktest.Edit(w, hello, func(o *Site) { o.Spec.Text = "ho" })
			w.MergeStatus(hello, `{"status":{"id":"a"}}`)
			frameworktest.Edit(w, hello, func(o *Site) { o.Spec.Text = "" })
			w.Create(shared.DeepCopy())
			frameworktest.Edit(w, shared, func(o *corev1.ConfigMap) { o.Data = nil })
		}, ""},
		{"fields that exist", func(w *frameworktest.World) {
			w.Create(hello)
			w.Merge(hello, `{"metadata":{"labels":{"a":"b"},"finalizers":[]},"spec":{"text":""}}`)
			w.MergeStatus(hello, `{"status":{"number":0,"id":"a"}}`)
			w.Merge(hello, `{"spec":{"text":null,"txet":null,"other":{"a":null}}}`)
		}, ""},
		{"what the server keeps elsewhere", func(w *frameworktest.World) { w.Create(secret); w.Merge(secret, `{"stringData":{"a":"b"}}`) }, ""},
		{"a value that Kubernetes leaves out", merges(shared, `{"immutable":false,"binaryData":{}}`), ""},
		{"an untyped object that fits", func(w *frameworktest.World) {
			w.Create(untypedOf(site, "Site", "hello", map[string]any{"spec": map[string]any{"text": "a"}, "status": map[string]any{"id": "a"}}))
		}, ""},
	} {
		failures := failuresOf(t, func(w *frameworktest.World) { r.story(w); w.Rest() })
		if (len(failures) > 0) != (r.says != "") || len(failures) > 0 && !strings.Contains(failures[0], r.says) {
			t.Errorf("%s: %q, want %q", r.name, failures, r.says)
		}
	}
}

// below calls a function from its own line, as the assertion of a library does.
func below(do func()) { do() }

// TestAFailureNamesTheLineOfTheStory that caused it.
func TestAFailureNamesTheLineOfTheStory(t *testing.T) {
	line, none := 0, newSite("none", "")
	here := func() { _, _, line, _ = runtime.Caller(1) }
	for name, story := range map[string]func(w *frameworktest.World){
		"Errorf":        func(w *frameworktest.World) { here(); w.Errorf("no") },
		"Fatalf":        func(w *frameworktest.World) { here(); w.Fatalf("no") },
		"a request":     func(w *frameworktest.World) { here(); w.Merge(none, `{}`) },
		"Edit":          func(w *frameworktest.World) { here(); frameworktest.Edit(w, none, func(*Site) {}) },
		"WantCondition": func(w *frameworktest.World) { here(); w.WantCondition(none, "Ready", "True") },
		"Want":          func(w *frameworktest.World) { here(); w.Want(none, `{}`) },
		"During": func(w *frameworktest.World) {
			w.During(func() { here(); w.Errorf("no") })
			appears(w)
		},
		"a function of another line": func(w *frameworktest.World) { here(); below(func() { w.Errorf("no") }) },
	} {
		failures := failuresOf(t, story)
		want := fmt.Sprintf("world_test.go:%d: ", line)
		if len(failures) != 1 || !strings.HasPrefix(failures[0], want) {
			t.Errorf("%s: %q, want %q", name, failures, want)
		}
	}
}

// TestARestThatDoesNotComeNamesTheLineOfTheStory and what is still written.
func TestARestThatDoesNotComeNamesTheLineOfTheStory(t *testing.T) {
	s := pair{story: appears}.scenario(func(op *framework.Operator, _ *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(_ context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			site.Status.Number++
			return framework.PatchStatus(site).RescheduleAfter(5 * time.Minute), nil
		}), siteOptions{})
	})
	s.Points = []frameworktest.Point{}
	found := s.Explore(t).Findings()
	if len(found) != 1 || !slices.ContainsFunc(found[0].Failures, func(f string) bool {
		return strings.HasPrefix(f, "bad_site_test.go:") && strings.Contains(f, ": it does not come to rest: ")
	}) {
		t.Errorf("%q", found)
	}
}

// TestAWorldWithoutARivalSaysSo where a story breaks a write by one.
func TestAWorldWithoutARivalSaysSo(t *testing.T) {
	failures := failuresOf(t, func(w *frameworktest.World) { w.Break(frameworktest.Rival); appears(w) })
	if len(failures) != 1 || !strings.HasSuffix(failures[0], "Break: rival: there is no other instance to take over; Everywhere has one") {
		t.Errorf("%q", failures)
	}
}
