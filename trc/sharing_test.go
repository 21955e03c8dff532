package trc_test

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

// common is an object with metadata that it has in common with others of its group.
func common(i, group, version int) *corev1.ConfigMap {
	yes := true
	o := object("o"+strconv.Itoa(i), fmt.Sprintf("u%d@%d", i, version))
	o.Labels = map[string]string{"app": "web", "group": strconv.Itoa(group)}
	o.Annotations = map[string]string{"checksum": strconv.Itoa(i)}
	o.Finalizers = []string{"example.com/f"}
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "n", UID: types.UID(strconv.Itoa(group)), Controller: &yes}}
	return o
}

func mapAt(o trc.Object) uintptr { return reflect.ValueOf(o.GetLabels()).Pointer() }

func TestObjectsShareWhatTheyHaveAlike(t *testing.T) {
	const n = 10_000
	r := newRigWithoutWatch(t)
	r.watch = r.AddWatch("")
	var all []trc.Object
	for i := range n {
		all = append(all, common(i, i%2, 10+i))
	}
	r.lists(2*n, all...)
	different := func() map[uintptr]int {
		at := map[uintptr]int{}
		for _, o := range r.List("", nil) {
			at[mapAt(o)]++
			if group := o.GetLabels()["group"]; group != string(o.GetOwnerReferences()[0].UID) || o.GetAnnotations()["checksum"] != o.GetName()[1:] {
				t.Fatalf("%s has the labels %v and the owner %v", o.GetName(), o.GetLabels(), o.GetOwnerReferences())
			}
		}
		return at
	}
	if at := different(); len(at) != 2 {
		t.Errorf("%d different labels in memory, want 2", len(at))
	}
	for i := range n {
		r.updates(common(i, (i+i%3)%2, 3*n+i)) // some move to the other group
	}
	if at := different(); len(at) != 2 {
		t.Errorf("%d different labels in memory after updates, want 2", len(at))
	}
}

// TestG17WhatReadersHoldIsNotWrittenToWhenItIsShared: an object whose labels have changed inherits
// the annotations of what readers still hold. The race detector sees whether they are written to.
func TestG17WhatReadersHoldIsNotWrittenToWhenItIsShared(t *testing.T) {
	r := newRigWithoutWatch(t)
	r.watch = r.AddWatch("")
	r.lists(20, common(0, 0, 10))
	held := r.Get(key("o0"))
	read := make(chan int)
	go func() {
		total := 0
		for _, value := range held.GetAnnotations() {
			total += len(value)
		}
		read <- total
	}()
	relisted := common(0, 1, 30)
	relisted.Annotations = maps.Clone(held.GetAnnotations())
	r.lists(40, relisted)
	<-read
	if now := r.Get(key("o0")); now == held || now.GetLabels()["group"] != "1" {
		t.Errorf("the list is not shown: %v", now)
	}
}

// TestModel_SharingChangesNoObject feeds a store with objects that differ in small ways, and checks
// what readers see.
func TestModel_SharingChangesNoObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SampledFrom([]string{"", "a", "b"})
		flag := rapid.SampledFrom([]*bool{nil, new(bool), func() *bool { yes := true; return &yes }()})
		store := trc.NewStore(trc.Options{Name: "shared"})
		watch := store.AddWatch("")
		want := map[string]*corev1.ConfigMap{}
		for version := range 30 {
			o := object(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"), "")
			o.UID, o.ResourceVersion = types.UID(o.Name), strconv.Itoa(version+2)
			for range rapid.IntRange(0, 2).Draw(t, "labels") {
				metav1.SetMetaDataLabel(&o.ObjectMeta, words.Draw(t, "key"), words.Draw(t, "value"))
			}
			for range rapid.IntRange(0, 2).Draw(t, "annotations") {
				metav1.SetMetaDataAnnotation(&o.ObjectMeta, words.Draw(t, "key"), words.Draw(t, "value"))
			}
			for range rapid.IntRange(0, 2).Draw(t, "owners") {
				o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{
					APIVersion: words.Draw(t, "version"), Kind: words.Draw(t, "kind"), Name: words.Draw(t, "owner"), UID: types.UID(words.Draw(t, "uid")),
					Controller: flag.Draw(t, "controller"), BlockOwnerDeletion: flag.Draw(t, "blocks"),
				})
			}
			for range rapid.IntRange(0, 2).Draw(t, "finalizers") {
				o.Finalizers = append(o.Finalizers, words.Draw(t, "finalizer"))
			}
			want[o.Name] = o.DeepCopy()
			items := []any{}
			for _, name := range []string{"x", "y", "z"} { // lists always share
				if known := want[name]; known != nil {
					items = append(items, known.DeepCopy())
				}
			}
			if err := watch.Replace(items, o.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			got := map[string]*corev1.ConfigMap{}
			for _, o := range store.List("", nil) {
				got[o.GetName()] = o.(*corev1.ConfigMap)
			}
			if !maps.EqualFunc(got, want, func(a, b *corev1.ConfigMap) bool { return reflect.DeepEqual(a, b) }) {
				t.Fatalf("shown\n%v\nwant\n%v", got, want)
			}
		}
	})
}
