package framework_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// readers are pages that name the ConfigMaps they read in their specification; they note what they
// find.
type readers struct {
	*pages
	mu    sync.Mutex // guards found
	found []string
	then  func(ctx context.Context, page *Page, c *pageContext) error
}

func newReaders() *readers {
	r := &readers{pages: &pages{}}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		all, err := r.configMaps.List(c)
		line := page.Name + ":"
		for _, m := range all {
			line += " " + m.Name + "=" + m.Data["data"]
		}
		r.mu.Lock()
		r.found = append(r.found, line)
		r.mu.Unlock()
		if r.then != nil && err == nil {
			err = r.then(ctx, page, c)
		}
		return pageUpdate{}, err
	}
	return r
}

func (r *readers) options() pageOptions {
	return pageOptions{Secondaries: framework.Secondaries(framework.Referred(&r.configMaps, func(page *Page) []types.NamespacedName {
		if page.Spec.HTML == "boom" {
			panic("boom")
		}
		return []types.NamespacedName{{Name: page.Spec.HTML}, {Namespace: "default", Name: page.Spec.HTML}}
	}))}
}

// expect checks what was found since the last call, in any order.
func (r *readers) expect(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.found)
	if !slices.Equal(r.found, want) {
		t.Errorf("found %q, want %q", r.found, want)
	}
	r.found = nil
}

func TestWhatPrimariesReferToMakesThemDueWhileTheyDo(t *testing.T) {
	r := newReaders()
	inVirtualTime(t, r, r.options(), func(v *virtual) {
		v.createPage("p", "shared")
		v.createPage("q", "shared")
		v.createPage("s", "other")
		v.createPage("t", "boom")
		v.pass(time.Second)
		r.expect(t, "p:", "q:", "s:", "t:")
		shared := configMapOf(newPage("default", "shared"), "1")
		v.create(shared)
		v.pass(time.Second)
		r.expect(t, "p: shared=1", "q: shared=1")
		v.patch(newPage("default", "s"), `{"spec":{"html":"shared"}}`)
		v.pass(time.Second)
		r.expect(t, "s: shared=1")
		v.patch(newPage("default", "p"), `{"spec":{"html":"none"}}`)
		v.pass(time.Second)
		r.expect(t, "p:")
		v.patch(shared, `{"data":{"data":"2"}}`)
		v.pass(time.Second)
		r.expect(t, "q: shared=2", "s: shared=2")
		noError(t, v.admin.Delete(v.t.Context(), shared))
		v.pass(time.Second)
		r.expect(t, "q:", "s:")
		v.delete("q")
		v.pass(time.Second)
		v.create(configMapOf(newPage("default", "shared"), "3"))
		v.pass(time.Second)
		r.expect(t, "s: shared=3")
	})
}

// TestO8WhatAPrimaryWritesToWhatItRefersToIsItsOwnAlone, and is read by all at once.
func TestO8WhatAPrimaryWritesToWhatItRefersToIsItsOwnAlone(t *testing.T) {
	r := newReaders()
	r.then = func(ctx context.Context, page *Page, c *pageContext) error {
		if page.Name != "p" {
			return nil
		}
		if _, err := framework.Apply(ctx, c, configMapOf(newPage("default", "shared"), "written")); err != nil {
			return err
		}
		m, err := r.configMaps.Get(c)
		if err == nil && (m == nil || m.Data["data"] != "written") {
			err = fmt.Errorf("read %v", m)
		}
		return err
	}
	inVirtualTime(t, r, r.options(), func(v *virtual) {
		v.model.Lag("configmaps", time.Minute)
		v.createPage("q", "shared")
		v.pass(time.Second)
		v.createPage("p", "shared")
		v.pass(time.Second)
		r.expect(t, "p:", "q:", "q: shared=written")
		v.pass(time.Hour)
		r.expect(t)
		v.atRest()
		for _, record := range v.op.Records("webpage") {
			if record.Err != "" {
				t.Error(record.Err)
			}
		}
	})
}

func TestWhatIsReferredToBeforeTheStartIsFound(t *testing.T) {
	overModel(t, func(m *modelled) {
		admin, err := client.New(m.model.Config(), scheme)
		noError(t, err)
		noError(t, admin.Create(t.Context(), configMapOf(newPage("default", "shared"), "1")))
		m.createPageWith("p", "shared")
		r := newReaders()
		defer m.operate(r, r.options())()
		time.Sleep(time.Minute)
		r.expect(t, "p: shared=1")
	})
}

func TestReferredIsRefusedWhereItMakesNoSense(t *testing.T) {
	var configMaps framework.Secondary[*corev1.ConfigMap]
	register := func(source framework.SecondarySource) error {
		return framework.Register(offline(t), &pages{}, pageOptions{Secondaries: framework.Secondaries(source)})
	}
	none := func(*Page) []types.NamespacedName { return nil }
	expectError(t, register(framework.Referred[*Page, *corev1.ConfigMap](nil, none)), "Secondaries[0]: Referred", "nil")
	expectError(t, register(framework.Referred[*Page](&configMaps, nil)), "Secondaries[0]: Referred", "nil")
	expectError(t, register(framework.Referred(&configMaps, func(*corev1.Secret) []types.NamespacedName { return nil })),
		"primaries of type *v1.Secret, the controller's are *v1.WebPage")
	noError(t, register(framework.Referred(&configMaps, none)))
	configMaps.Map = mapToPage("p")
	expectError(t, register(framework.Referred(&configMaps, none)), "Secondary.Map: must be nil with Referred")
}

// TestWhatNothingMapsIsFoundByItsNameOnly: neither List nor events know of it.
func TestWhatNothingMapsIsFoundByItsNameOnly(t *testing.T) {
	r := newReaders()
	var named []string
	r.then = func(_ context.Context, page *Page, c *pageContext) error {
		m, err := r.configMaps.GetNamed(c, page.Namespace, page.Spec.HTML)
		named = append(named, fmt.Sprint(m != nil))
		return err
	}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.createPage("p", "shared")
		v.pass(time.Second)
		v.create(configMapOf(newPage("default", "shared"), "1"))
		v.pass(time.Minute)
		r.expect(t, "p:")
		v.createPage("q", "shared")
		v.pass(time.Minute)
		r.expect(t, "q:")
		if !slices.Equal(named, []string{"false", "true"}) {
			t.Errorf("found by name: %v", named)
		}
	})
}
