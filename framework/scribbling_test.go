package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// scribbler is an author that writes in every way, and scribbles over whatever it is handed, at its
// own pace.
type scribbler struct {
	t *testing.T
	cleaningPages
	pens sync.WaitGroup
}

func (s *scribbler) spoil(handed framework.Object, err error) {
	if err != nil {
		s.t.Error(err)
		return
	}
	s.pens.Go(func() { scribble(reflect.ValueOf(handed)) })
}

// scribble changes every text in place.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString("scribbled")
	}
}

func (s *scribbler) run(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
	own, seen := p.DeepCopy(), fmt.Sprint(p.Generation)
	named := func() *Page { return &Page{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: own.Name}} }
	s.spoil(p, nil)
	for range 2 { // the second is not sent
		s.spoil(framework.Apply(ctx, c, configMapOf(own, seen), framework.OwnedByPrimary()))
	}
	s.spoil(framework.MergePatch(ctx, c, named(), []byte(`{"metadata":{"annotations":{"merged":"`+seen+`"}}}`)))
	s.spoil(framework.JSONPatch(ctx, c, named(), []byte(`[{"op":"add","path":"/metadata/annotations/patched","value":"`+seen+`"}]`)))
	read, err := framework.Live[*Page](ctx, c, own.Namespace, own.Name)
	if err != nil {
		return pageUpdate{}, err
	}
	update := read.DeepCopy()
	s.spoil(read, nil)
	update.Annotations["updated"] = seen
	s.spoil(framework.Update(ctx, c, update))
	s.spoil(update, nil)
	status := named()
	status.Status.URL = "url-" + seen
	s.spoil(framework.ApplyStatus(ctx, c, status))
	own.Labels, own.Status.ObservedGeneration = map[string]string{"seen": seen}, own.Generation
	return framework.PatchResourceAndStatus(own), nil
}

// Nothing that an author is handed is what the framework goes on with: neither the caches, nor what
// the run holds of the primary, which every write is made conditional on.
func TestG17AnAuthorMayChangeWhateverItIsHanded(t *testing.T) {
	for _, lag := range []time.Duration{0, time.Minute} { // echoes that come, and answers that stay laid over
		t.Run(fmt.Sprint("watches lag ", lag), func(t *testing.T) {
			s := &scribbler{t: t}
			s.reconcile = s.run
			s.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
				return framework.RemoveFinalizer(), nil
			}
			inVirtualTime(t, s, withConfigMaps(&s.pages, pageOptions{MaxInterval: scheduler.NoMaxInterval}), func(v *virtual) {
				v.model.Lag("webpages", lag)
				v.model.Lag("configmaps", lag)
				page := newPage("default", "p")
				v.create(page.DeepCopy())
				for run, writes := range []int{8, 7, 7} { // the first puts the finalizer on
					v.pass(lag*3/2 + time.Second) // the run was then, and its echoes are on their way
					s.pens.Wait()
					v.unspoiled(page)
					if sent := v.writes(); len(sent) != writes || len(records(v.op, page)) != run+1 {
						t.Errorf("%d runs, the last wrote %q", len(records(v.op, page)), sent)
					}
					v.pass(10 * time.Minute)
					v.unspoiled(page)
					v.patch(page.DeepCopy(), fmt.Sprintf(`{"spec":{"html":"changed %d"}}`, run))
				}
				v.pass(10 * time.Minute)
				s.pens.Wait()
				v.atRest()
			})
		})
	}
}

// unspoiled checks that the caches show the page and its ConfigMap as the server has them.
func (v *virtual) unspoiled(page *Page) {
	v.t.Helper()
	for _, want := range []client.Object{&Page{}, &corev1.ConfigMap{}} {
		key, kind := trc.KeyOf(page), pageKind
		if _, ok := want.(*corev1.ConfigMap); ok {
			key, kind = trc.KeyOf(configMapOf(page, "")), corev1.SchemeGroupVersion.WithKind("ConfigMap")
		}
		noError(v.t, v.admin.Get(v.t.Context(), key, want))
		want.SetManagedFields(nil)
		want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		cached := framework.Cached(v.op, kind, key)
		if len(cached) != 1 {
			v.t.Errorf("%d caches show %s", len(cached), key)
		}
		for _, got := range cached {
			if text(v.t, got) != text(v.t, want) {
				v.t.Errorf("a cache shows\n%s\nwant\n%s", text(v.t, got), text(v.t, want))
			}
		}
	}
}

func text(t *testing.T, o any) string {
	t.Helper()
	encoded, err := json.Marshal(o)
	noError(t, err)
	return string(encoded)
}
