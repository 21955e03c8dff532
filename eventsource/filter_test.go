package eventsource_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

type configMaps = *corev1.ConfigMap

func TestC46_FiltersAreComposed(t *testing.T) {
	type filter = eventsource.Filter[configMaps]
	asked := ""
	is := func(name string, answer bool) filter {
		return func(_, _ configMaps) bool { asked += name; return answer }
	}
	yes, no := is("y", true), is("n", false)
	var none filter
	for _, c := range []struct {
		name  string
		of    filter
		want  bool
		asked string
	}{
		{"and", yes.And(yes), true, "yy"},
		{"and, the first", no.And(yes), false, "n"},
		{"and, the last", yes.And(yes, no), false, "yyn"},
		{"and none", yes.And(none), true, "y"},
		{"none and", none.And(no), false, "n"},
		{"or", no.Or(yes), true, "ny"},
		{"or, the first", yes.Or(no), true, "y"},
		{"or, neither", no.Or(no, no), false, "nnn"},
		{"or none", no.Or(none), true, "n"},
		{"not", yes.Not(), false, "y"},
		{"not not", yes.Not().Not(), true, "y"},
		{"not none", none.Not(), false, ""},
		{"not none and", none.Not().Or(yes), true, "y"},
		{"de Morgan", no.And(yes).Not(), true, "n"},
	} {
		asked = ""
		if got := c.of(nil, nil); got != c.want || asked != c.asked {
			t.Errorf("%s: %v, asked %q; want %v, %q", c.name, got, asked, c.want, c.asked)
		}
	}
}

func TestC46_WhatLooksAtOneStateIsComposed(t *testing.T) {
	type where = eventsource.Where[configMaps]
	labelled := where(func(o configMaps) bool { return o.Labels["primaries"] != "" })
	big := where(func(o configMaps) bool { return len(o.Data) > 1 })
	var all where
	one, two := configMap("1", ""), configMap("1", "a")
	two.Data = map[string]string{"a": "", "b": ""}
	for _, c := range []struct {
		name     string
		of       where
		one, two bool
	}{
		{"itself", labelled, false, true},
		{"and", labelled.And(big), false, true},
		{"and not", labelled.And(big.Not()), false, false},
		{"or", labelled.Or(big), false, true},
		{"not", labelled.Not(), true, false},
		{"and all", labelled.And(all), false, true},
		{"or all", labelled.Or(all), true, true},
		{"not all", all.Not(), false, false},
	} {
		if c.of(one) != c.one || c.of(two) != c.two {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, c.of(one), c.of(two), c.one, c.two)
		}
	}
	changes := labelled.OldOrNew()
	for _, c := range []struct {
		old, new configMaps
		want     bool
	}{
		{nil, one, false},
		{nil, two, true},
		{one, nil, false},
		{two, nil, true},
		{one, one, false},
		{one, two, true},
		{two, one, true},
		{two, two, true},
	} {
		if got := changes(c.old, c.new); got != c.want {
			t.Errorf("from %v to %v: %v", c.old, c.new, got)
		}
	}
	if !all.OldOrNew()(nil, one) {
		t.Error("all: not all")
	}
}

func TestC46_FiltersForUse(t *testing.T) {
	filters := map[string]eventsource.Filter[configMaps]{
		"generation": eventsource.GenerationChanged[configMaps], "labels": eventsource.LabelsChanged[configMaps], "annotations": eventsource.AnnotationsChanged[configMaps],
		"deletion": eventsource.DeletionRequested[configMaps], "content": eventsource.ContentChanged[configMaps],
	}
	now := metav1.NewTime(time.Unix(0, 0))
	for _, c := range []struct {
		name   string
		change func(o configMaps)
		lets   map[string]bool
	}{
		{"nothing but the version and the managers", func(o configMaps) {
			o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		}, nil},
		{"the generation", func(o configMaps) { o.Generation++ }, map[string]bool{"generation": true, "content": true}},
		{"no generations", func(o configMaps) { o.Generation = 0 }, map[string]bool{"generation": true, "content": true}},
		{"labels", func(o configMaps) { o.Labels = nil }, map[string]bool{"labels": true, "content": true}},
		{"annotations", func(o configMaps) { o.Annotations = map[string]string{"a": ""} }, map[string]bool{"annotations": true, "content": true}},
		{"a deletion", func(o configMaps) { o.DeletionTimestamp = &now }, map[string]bool{"deletion": true, "content": true}},
		{"data", func(o configMaps) { o.Data = map[string]string{"a": ""} }, map[string]bool{"content": true}},
		{"an empty map", func(o configMaps) { o.Data = map[string]string{} }, nil},
	} {
		old := configMap("11", "a")
		old.Generation = 1
		changed := old.DeepCopy()
		changed.ResourceVersion = "12"
		c.change(changed)
		want := changed.DeepCopy()
		for name, filter := range filters {
			if got := filter(old, changed); got != c.lets[name] {
				t.Errorf("%s: %s lets pass: %v", c.name, name, got)
			}
			if !filter(nil, changed) || !filter(old, nil) {
				t.Errorf("%s holds back what is no update", name)
			}
		}
		if !reflect.DeepEqual(changed, want) {
			t.Errorf("%s: the object was changed", c.name)
		}
	}
}

// TestC46_AFilterOfInterfacesTellsTheAbsentToo, as sources have them.
func TestC46_AFilterOfInterfacesTellsTheAbsentToo(t *testing.T) {
	filter := eventsource.Filter[trc.Object](eventsource.LabelsChanged[trc.Object])
	if !filter(nil, configMap("1", "")) || filter(configMap("1", "a"), configMap("2", "a")) {
		t.Error("labels")
	}
}

func ExampleFilter() {
	matters := eventsource.Filter[*corev1.ConfigMap](eventsource.LabelsChanged[*corev1.ConfigMap]).Or(eventsource.DeletionRequested)
	html := eventsource.Where[*corev1.ConfigMap](func(o *corev1.ConfigMap) bool { return o.Data["index.html"] != "" })
	filter := matters.And(html.OldOrNew())

	with := &corev1.ConfigMap{Data: map[string]string{"index.html": "<html/>"}}
	labelled := with.DeepCopy()
	labelled.Labels = map[string]string{"tier": "front"}
	fmt.Println(filter(with, with), filter(with, labelled), filter(nil, &corev1.ConfigMap{}))
	// Output: false true false
}
