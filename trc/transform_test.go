package trc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/trc"
)

// full is an object with some content: its version, and a label that the transforms of these tests
// drop.
func full(name, short string) *corev1.ConfigMap {
	o := object(name, short)
	o.Labels = map[string]string{"kept": "yes", "dropped": "yes"}
	o.Data = map[string]string{"version": o.ResourceVersion}
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody", Time: &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}}}
	return o
}

// dropData is a transform.
func dropData(o trc.Object) {
	c := o.(*corev1.ConfigMap)
	c.Data = nil
	delete(c.Labels, "dropped")
}

// isPruned reports whether a full object lacks what dropData drops.
func isPruned(o trc.Object) bool {
	c := o.(*corev1.ConfigMap)
	return c.Data == nil && maps.Equal(c.Labels, map[string]string{"kept": "yes"}) && c.ManagedFields == nil
}

func TestTransformSeesToAllThatEnters(t *testing.T) {
	r := newRigWith(t, trc.Options{Transform: dropData})
	r.watch = r.AddWatch("")
	must(t, r.AddIndex("data", func(o trc.Object) []string { return []string{strconv.Itoa(len(o.(*corev1.ConfigMap).Data))} }))
	r.lists(10, full("listed", "u1@5"))
	r.adds(full("added", "u2@11"))
	r.updates(full("added", "u2@12"))
	r.acknowledge(full("written", "u3@13"))
	for _, name := range []string{"listed", "added", "written"} {
		if o := r.Get(key(name)); !isPruned(o) {
			t.Errorf("%s is %v", name, o)
		}
		if manager, _, _ := r.LastManager(key(name)); manager != "somebody" {
			t.Errorf("%s: last manager %q", name, manager)
		}
	}
	if found, err := r.ByIndex("data", "0"); err != nil || len(found) != 3 {
		t.Errorf("indexes see %d pruned objects, want 3 (%v)", len(found), err)
	}
	for _, o := range r.replay {
		if !isPruned(o) {
			t.Errorf("told of %v", o)
		}
	}
	r.told = nil
	before := r.Get(key("written"))
	r.adds(full("written", "u3@13")) // the echo
	r.tells()
	if now := r.Get(key("written")); fmt.Sprint(before) != fmt.Sprint(now) {
		t.Errorf("the echo made %v of %v", now, before)
	}
}

func TestTransformLeavesWhatObjectsLiveBy(t *testing.T) {
	controller := true
	whole := full("a", "u1@5")
	whole.Generation, whole.Finalizers = 3, []string{"example.com/f"}
	whole.CreationTimestamp = metav1.Now().Rfc3339Copy()
	deleted, grace := metav1.Now().Rfc3339Copy(), int64(30)
	whole.DeletionTimestamp, whole.DeletionGracePeriodSeconds = &deleted, &grace
	whole.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "n", UID: "u", Controller: &controller}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(whole)
	must(t, err)
	content["apiVersion"], content["kind"] = "v1", "ConfigMap"
	want := whole.DeepCopy()
	want.Labels, want.Data, want.ManagedFields = nil, nil, nil

	for name, transform := range map[string]func(trc.Object){
		"everything goes": func(o trc.Object) {
			switch o := o.(type) {
			case *corev1.ConfigMap:
				for i := range o.Finalizers {
					o.Finalizers[i] = ""
				}
				for i := range o.OwnerReferences {
					o.OwnerReferences[i] = metav1.OwnerReference{}
				}
				*o = corev1.ConfigMap{}
			case *unstructured.Unstructured:
				o.SetFinalizers([]string{"other"})
				o.Object = nil
			}
		},
		"it panics half way": func(o trc.Object) {
			o.SetFinalizers(nil)
			o.SetOwnerReferences(nil)
			o.SetLabels(nil)
			if c, ok := o.(*corev1.ConfigMap); ok {
				c.Data = nil
			} else {
				delete(o.(*unstructured.Unstructured).Object, "data")
			}
			panic("half way")
		},
	} {
		for _, o := range []trc.Object{whole.DeepCopy(), &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}} {
			store := trc.NewStore(trc.Options{Name: "x", Transform: transform})
			must(t, store.AddWatch("").Replace([]any{o}, "10"))
			got := store.Get(key("a"))
			if got == nil {
				t.Errorf("%s: %T is not there", name, o)
				continue
			}
			typed := &corev1.ConfigMap{}
			if u, ok := got.(*unstructured.Unstructured); ok {
				must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed))
				typed.TypeMeta = metav1.TypeMeta{}
			} else {
				typed = got.(*corev1.ConfigMap)
			}
			if fmt.Sprintf("%#v", normalised(typed)) != fmt.Sprintf("%#v", normalised(want)) {
				t.Errorf("%s: %T is left as\n%v, want\n%v", name, o, typed, want)
			}
		}
	}
}

// normalised is an object in a form that prints the same for the same.
func normalised(o *corev1.ConfigMap) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	return fmt.Sprint(content, err)
}

// paged is an API server of pages of ConfigMaps. It says that the version of a list is forgotten
// when asked for the page number expires.
type paged struct {
	objects []*corev1.ConfigMap
	expires int
	asked   []string
	watched chan struct{}
}

func (p *paged) List(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	p.asked = append(p.asked, fmt.Sprintf("limit %d from %q at %q", o.Limit, o.Continue, o.ResourceVersion))
	if len(p.asked) == p.expires {
		return nil, apierrors.NewResourceExpired("forgotten")
	}
	from, _ := strconv.Atoi(o.Continue)
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}}
	to := len(p.objects)
	if o.Limit > 0 && from+int(o.Limit) < to {
		to = from + int(o.Limit)
		list.Continue = strconv.Itoa(to)
	}
	for _, one := range p.objects[from:to] {
		list.Items = append(list.Items, *one.DeepCopy())
	}
	return list, nil
}

func (p *paged) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if p.watched != nil {
		close(p.watched)
		p.watched = nil
	}
	return watch.NewFake(), nil
}

func TestPagedListsAreWholeWhateverHappensBetweenPages(t *testing.T) {
	for _, one := range []struct {
		name    string
		expires int
		asks    []string
	}{
		{"undisturbed", 0, []string{`limit 2 from "" at "0"`, `limit 2 from "2" at ""`, `limit 2 from "4" at ""`}},
		{"forgotten on the way", 2, []string{`limit 2 from "" at "0"`, `limit 2 from "2" at ""`, `limit 0 from "" at "0"`}},
	} {
		t.Run(one.name, func(t *testing.T) {
			server := &paged{expires: one.expires, watched: make(chan struct{})}
			watched := server.watched
			for i := range 5 {
				server.objects = append(server.objects, full("o"+strconv.Itoa(i), "u"+strconv.Itoa(i)+"@"+strconv.Itoa(10+i)))
			}
			store := trc.NewStore(trc.Options{Name: "paged", Transform: dropData})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); store.Run(ctx, trc.Watched{From: server, PageSize: 2}) }()
			<-store.Synced()
			<-watched // it lists no more
			stop()
			<-done
			if !slices.Equal(server.asked, one.asks) {
				t.Errorf("asked for\n%s\nwant\n%s", strings.Join(server.asked, "\n"), strings.Join(one.asks, "\n"))
			}
			if got := len(store.List("", nil)); got != 5 {
				t.Errorf("%d objects, want 5", got)
			}
			for _, o := range store.List("", nil) {
				if manager, _, _ := store.LastManager(trc.KeyOf(o)); !isPruned(o) || manager != "somebody" {
					t.Errorf("%v, changed by %q", o, manager)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errUnreachable = errors.New("unreachable")
