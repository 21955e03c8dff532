package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// listingLive is a reconciler that lists ConfigMaps past its cache, in its first run.
func listingLive(list func(ctx context.Context, r *pages, c *pageContext)) *pages {
	r, listed := &pages{}, false
	r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: m.Namespace, Name: "p"}}
	}
	r.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if !listed {
			listed = true
			list(ctx, r, c)
		}
		return pageUpdate{}, nil
	}
	return r
}

func labelledMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"name": name}}}
}

// TestG02WhatALiveListHasShownIsShownFromThenOn: the watch is behind. What comes, is listed, and
// goes while nobody watches makes its primary due when it is known to be gone.
func TestG02WhatALiveListHasShownIsShownFromThenOn(t *testing.T) {
	var found []string
	r := listingLive(func(ctx context.Context, r *pages, c *pageContext) {
		for m, err := range r.configMaps.LiveList(ctx, c, framework.Selection{LabelSelector: "name in (a, b)"}) {
			noError(t, err)
			shown, err := r.configMaps.GetNamed(c, m.Namespace, m.Name)
			if err != nil || shown == nil || shown.ResourceVersion != m.ResourceVersion {
				t.Errorf("%s was listed at %s, and the cache shows %v, %v", m.Name, m.ResourceVersion, shown, err)
			}
			found = append(found, m.Name)
		}
		if shown, err := r.configMaps.List(c); len(shown) != 2 || err != nil {
			t.Errorf("the cache shows %d, %v", len(shown), err)
		}
	})
	inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
		v.model.Lag("configmaps", time.Hour)
		b := labelledMap("b")
		for _, m := range []*corev1.ConfigMap{labelledMap("a"), b, labelledMap("c")} {
			v.create(m)
		}
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		if !slices.Equal(found, []string{"a", "b"}) {
			t.Errorf("listed %v", found)
		}
		before := len(records(v.op, newPage("default", "p")))
		noError(t, v.admin.Delete(t.Context(), b))
		v.model.Expire("configmaps") // a new list steps over what b was
		v.pass(2 * time.Minute)
		causes := ""
		for _, record := range records(v.op, newPage("default", "p"))[before:] {
			causes += fmt.Sprint(record.Causes)
		}
		if want := "ConfigMap default/b deleted"; !strings.Contains(causes, want) {
			t.Errorf("causes %s, want %s", causes, want)
		}
		v.atRest()
	})
}

func TestALiveListTellsWhyItEnds(t *testing.T) {
	r := listingLive(func(ctx context.Context, r *pages, c *pageContext) {
		errs := 0
		for _, err := range r.configMaps.LiveList(ctx, c, framework.Selection{LabelSelector: "a=b=c"}) {
			if errs++; !apierrors.IsBadRequest(err) {
				t.Errorf("%v", err)
			}
		}
		if errs != 1 {
			t.Errorf("%d errors", errs)
		}
		for range r.configMaps.LiveList(ctx, c, framework.Selection{Namespace: "default"}) {
			break // asks for no more
		}
		var other framework.Secondary[*corev1.ConfigMap]
		for _, err := range other.LiveList(ctx, c, framework.Selection{}) {
			if err == nil {
				t.Error("a Secondary that the controller does not read was listed")
			}
		}
	})
	inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
		v.create(labelledMap("a"))
		v.create(newPage("default", "p"))
		v.pass(time.Second)
	})
}

// TestLivePrimaryIsTheVeryPrimary reads past a cache that is behind: a newer state of the primary,
// then one that took its name.
func TestLivePrimaryIsTheVeryPrimary(t *testing.T) {
	var v *virtual
	runs := 0
	r := &pages{reconcile: func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if runs++; runs > 1 {
			return pageUpdate{}, nil
		}
		v.patch(newPage("default", "p"), `{"spec":{"html":"newer"}}`)
		live, err := c.LivePrimary(ctx)
		if err != nil || live.Spec.HTML != "newer" || p.Spec.HTML == "newer" {
			t.Errorf("%v, %v", live, err)
		}
		noError(t, v.admin.Delete(ctx, newPage("default", "p")))
		if _, err := c.LivePrimary(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("of one that is gone: %v", err)
		}
		v.create(newPage("default", "p"))
		if _, err := c.LivePrimary(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("of another one of its name: %v", err)
		}
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(virtual *virtual) {
		v = virtual
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
	})
}

// TestPerTermLastsAsLongAsTheInstanceLeads, and what another instance, or a later term, keeps is
// its own.
func TestPerTermLastsAsLongAsTheInstanceLeads(t *testing.T) {
	kept := map[string][]*int{}
	keeping := func(name string) *pages {
		return &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			kept[name] = append(kept[name], c.TermValue("key", func() any { return new(int) }).(*int))
			return pageUpdate{}, nil
		}}
	}
	withReplicas(t, func(r *replicas) {
		a, b := r.start("a", keeping("a")), r.start("b", keeping("b"))
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		r.touch("p", "again")
		r.pass(time.Second)
		r.disturb(unreachable("a"))
		for !b.Leading() {
			r.pass(time.Second)
		}
		r.disturb(nil)
		r.touch("p", "by b")
		r.pass(time.Minute)
		noError(r.T, b.stop())
		r.pass(handover)
		r.lead("a", a)
		r.touch("p", "by a")
		r.pass(time.Second)
		noError(r.T, a.stop())
		of := kept["a"]
		if len(of) < 3 || len(kept["b"]) == 0 {
			t.Fatalf("%d and %d runs", len(of), len(kept["b"]))
		}
		if of[0] != of[1] || of[0] == of[len(of)-1] || of[0] == kept["b"][0] {
			t.Errorf("a kept %p, b %p", of, kept["b"])
		}
	})
}
