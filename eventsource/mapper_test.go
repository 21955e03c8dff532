package eventsource_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

func owner(apiVersion, kind, name string, controller bool) metav1.OwnerReference {
	o := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name}
	if controller {
		o.Controller = &controller
	}
	return o
}

const pageVersion = "samples.evenkeel.dev/v1"

// mapped are the primaries that a relation names of a secondary, as "namespace/name".
func mapped(t *testing.T, relation eventsource.Relation, clusterScoped bool, o trc.Object) string {
	t.Helper()
	mapper, err := relation.MapperFor(webPage, clusterScoped)
	must(t, err)
	var keys []string
	for _, key := range mapper(o) {
		keys = append(keys, key.String())
	}
	return strings.Join(keys, " ")
}

func TestMappers_RelationsNameThePrimariesOfASecondary(t *testing.T) {
	no := false
	both := []metav1.OwnerReference{
		owner(pageVersion, "WebPage", "one", false), owner("samples.evenkeel.dev/v2", "WebPage", "two", true),
		owner("apps/v1", "Deployment", "d", false), owner("other.dev/v1", "WebPage", "foreign", true),
		{APIVersion: pageVersion, Kind: "WebPage", Name: "three", Controller: &no},
	}
	marks := map[string]string{
		eventsource.PrimaryNameKey: "p", eventsource.PrimaryNamespaceKey: "far", eventsource.PrimaryKindKey: "WebPage.samples.evenkeel.dev",
	}
	less := func(key string) map[string]string {
		m := map[string]string{}
		for k, v := range marks {
			if k != key {
				m[k] = v
			}
		}
		return m
	}
	otherKind := less(eventsource.PrimaryKindKey)
	otherKind[eventsource.PrimaryKindKey] = "WebPage.other.dev"
	own := eventsource.PrimaryRef{Name: "example.com/page", Namespace: "example.com/ns", Labels: true}
	for _, c := range []struct {
		name     string
		relation eventsource.Relation
		cluster  bool
		meta     metav1.ObjectMeta
		want     string
	}{
		{"all owners of the kind", eventsource.Owners{}, false, metav1.ObjectMeta{OwnerReferences: both}, "ns/one ns/two ns/three"},
		{"the controller alone", eventsource.Owners{ControllerOnly: true}, false, metav1.ObjectMeta{OwnerReferences: both}, "ns/two"},
		{"cluster-scoped owners", eventsource.Owners{ControllerOnly: true}, true, metav1.ObjectMeta{OwnerReferences: both}, "/two"},
		{"no owners", eventsource.Owners{}, false, metav1.ObjectMeta{}, ""},

		{"three annotations", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Annotations: marks}, "far/p"},
		{"annotations, of cluster-scoped", eventsource.PrimaryRef{}, true, metav1.ObjectMeta{Annotations: marks}, "/p"},
		{"labels that are annotations", eventsource.PrimaryRef{Labels: true}, false, metav1.ObjectMeta{Annotations: marks}, ""},
		{"annotations that are labels", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Labels: marks}, ""},
		{"three labels", eventsource.PrimaryRef{Labels: true}, false, metav1.ObjectMeta{Labels: marks}, "far/p"},
		{"no namespace: its own", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Annotations: less(eventsource.PrimaryNamespaceKey)}, "ns/p"},
		{"no name", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Annotations: less(eventsource.PrimaryNameKey)}, ""},
		{"no kind", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Annotations: less(eventsource.PrimaryKindKey)}, ""},
		{"another kind", eventsource.PrimaryRef{}, false, metav1.ObjectMeta{Annotations: otherKind}, ""},
		{"another kind of namespace key", eventsource.PrimaryRef{Namespace: "x"}, false, metav1.ObjectMeta{Annotations: marks}, "ns/p"},
		{"own keys", own, false, metav1.ObjectMeta{Labels: map[string]string{"example.com/page": "q", "example.com/ns": "there"}}, "there/q"},
		{"own keys do not see the default ones", own, false, metav1.ObjectMeta{Labels: marks}, ""},
		{"a name alone ignores the namespace", eventsource.PrimaryRef{Name: eventsource.PrimaryNameKey}, false, metav1.ObjectMeta{Annotations: marks}, "ns/p"},

		{"the very name", eventsource.Names{}, false, metav1.ObjectMeta{}, "ns/shared"},
		{"the very name, of cluster-scoped", eventsource.Names{}, true, metav1.ObjectMeta{}, "/shared"},
		{"a part of the name", eventsource.Names{Prefix: "sh", Suffix: "ed"}, false, metav1.ObjectMeta{}, "ns/ar"},
		{"another prefix", eventsource.Names{Prefix: "x"}, false, metav1.ObjectMeta{}, ""},
		{"another suffix", eventsource.Names{Suffix: "x"}, false, metav1.ObjectMeta{}, ""},
		{"nothing between them", eventsource.Names{Prefix: "sha", Suffix: "red"}, false, metav1.ObjectMeta{}, ""},
		{"overlapping", eventsource.Names{Prefix: "share", Suffix: "hared"}, false, metav1.ObjectMeta{}, ""},

		{
			"any of them, each once",
			eventsource.AnyOf{eventsource.Owners{}, eventsource.Mapper(eventsource.Self), eventsource.Names{}, eventsource.AnyOf{eventsource.PrimaryRef{}}},
			false,
			metav1.ObjectMeta{OwnerReferences: both[:1], Annotations: marks},
			"ns/one ns/shared far/p",
		},
		{"any of none", eventsource.AnyOf{}, false, metav1.ObjectMeta{OwnerReferences: both}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.meta.Namespace, c.meta.Name = "ns", "shared"
			o := &corev1.ConfigMap{ObjectMeta: c.meta}
			before := o.DeepCopy()
			if got := mapped(t, c.relation, c.cluster, o); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if !reflect.DeepEqual(o, before) {
				t.Error("the secondary was changed")
			}
		})
	}
}

func TestMappers_ASecondaryWithoutANamespaceHasNoPrimaryInOne(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"example.com/page": "p"}}}
	marks := eventsource.PrimaryRef{Name: "example.com/page", Namespace: "example.com/ns"}
	for _, relation := range []eventsource.Relation{marks, eventsource.Names{}} {
		if got := mapped(t, relation, false, namespace); got != "" {
			t.Errorf("%T: got %q", relation, got)
		}
	}
	namespace.Annotations["example.com/ns"] = "there"
	if got := mapped(t, marks, false, namespace); got != "there/p" {
		t.Errorf("got %q", got)
	}
}

func TestControlledByIsOwnersOfTheController(t *testing.T) {
	o := configMap("5", "")
	o.OwnerReferences = []metav1.OwnerReference{owner(pageVersion, "WebPage", "one", false), owner(pageVersion, "WebPage", "two", true)}
	if got, want := eventsource.ControlledBy(webPage, false)(o), []trc.Key{{Namespace: "ns", Name: "two"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestMappers_WhatIsMarkedIsMappedBack, whatever the marks and the scope.
func TestMappers_WhatIsMarkedIsMappedBack(t *testing.T) {
	for _, marks := range []eventsource.PrimaryRef{
		{}, {Labels: true}, {Name: "example.com/page"}, {Name: "page", Namespace: "ns", Kind: "kind", Labels: true}, {Kind: "example.com/kind"},
	} {
		for _, primary := range []trc.Key{{Name: "p"}, {Namespace: "ns", Name: "p"}, {Namespace: "far", Name: "p"}} {
			o := configMap("5", "x")
			o.Annotations = map[string]string{"kept": "yes"}
			labels, annotations := o.Labels, o.Annotations
			err := marks.Put(o, webPage, primary)
			if marks.Name == "example.com/page" && primary.Namespace == "far" {
				if err == nil || !strings.Contains(err.Error(), "far/p") || len(o.Annotations) != 1 {
					t.Errorf("%+v of %v: %v, %v", marks, primary, err, o.Annotations)
				}
				continue
			}
			must(t, err)
			if got := mapped(t, marks, primary.Namespace == "", o); got != primary.String() {
				t.Errorf("%+v: got %q, want %q", marks, got, primary)
			}
			if o.Labels["primaries"] != "x" || o.Annotations["kept"] != "yes" || len(labels) != 1 || len(annotations) != 1 {
				t.Errorf("%+v: changed what was there: %v, %v", marks, o.Labels, o.Annotations)
			}
		}
	}
}

func TestMappers_MarksThatCannotBeAreRefusedAllAtOnce(t *testing.T) {
	bad := eventsource.PrimaryRef{Name: "a b", Namespace: "same", Kind: "same"}
	_, err := bad.MapperFor(webPage, false)
	for _, err := range []error{err, bad.Put(configMap("5", ""), webPage, trc.Key{Name: "p"})} {
		if err == nil || !strings.Contains(err.Error(), `Name "a b"`) || !strings.Contains(err.Error(), `Kind "same": is Namespace already`) {
			t.Errorf("error %v", err)
		}
	}
	long := trc.Key{Namespace: "ns", Name: strings.Repeat("x", 64)}
	o := configMap("5", "")
	if err := (eventsource.PrimaryRef{Labels: true}).Put(o, webPage, long); err == nil || !strings.Contains(err.Error(), "Name") || len(o.Labels) != 1 {
		t.Errorf("error %v, labels %v", err, o.Labels)
	}
	must(t, eventsource.PrimaryRef{}.Put(o, webPage, long))
	_, err = eventsource.AnyOf{nil, eventsource.Mapper(nil), bad}.MapperFor(webPage, false)
	if err == nil || !strings.Contains(err.Error(), "a relation is nil") || !strings.Contains(err.Error(), "Mapper is nil") || !strings.Contains(err.Error(), "a b") {
		t.Errorf("error %v", err)
	}
}

// ExamplePrimaryRef lets a page have a ConfigMap in a namespace of its own, where Kubernetes lets
// it own nothing.
func ExamplePrimaryRef() {
	page := schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}
	marks := eventsource.PrimaryRef{Labels: true}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "published", Name: "html"}}
	if err := marks.Put(configMap, page, trc.Key{Namespace: "web", Name: "page"}); err != nil {
		fmt.Println(err)
	}
	mapper, err := marks.MapperFor(page, false)
	fmt.Println(mapper(configMap), err)
	// Output: [web/page] <nil>
}

// ExampleAnyOf takes all who own a secondary for its primaries, and the one that it is named after.
func ExampleAnyOf() {
	page := schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}
	mapper, err := eventsource.AnyOf{eventsource.Owners{}, eventsource.Names{Suffix: "-html"}}.MapperFor(page, false)
	fmt.Println(mapper(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "page-html",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "other"}},
	}}), err)
	// Output: [web/other web/page] <nil>
}
