package framework_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// intentFor is a fresh page of the name, with finalizers.
func intentFor(page *Page, html string, finalizers ...string) *Page {
	return &Page{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name, Finalizers: finalizers},
		Spec:       webpagev1.WebPageSpec{HTML: html},
	}
}

// TestG09WhatTheAuthorWritesOfThePrimaryKeepsTheFinalizer in every way there is, in a first write
// that lists it and a second one that does not, and in Cleanup.
func TestG09WhatTheAuthorWritesOfThePrimaryKeepsTheFinalizer(t *testing.T) {
	type author func(ctx context.Context, page *Page, c *pageContext, html string, listed []string) (pageUpdate, error)
	apply := func(options ...framework.WriteOption) author {
		return func(ctx context.Context, page *Page, c *pageContext, html string, listed []string) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, intentFor(page, html, listed...), options...)
			return pageUpdate{}, err
		}
	}
	fresh := func(_ context.Context, page *Page, _ *pageContext, html string, listed []string) (pageUpdate, error) {
		return framework.PatchResource(intentFor(page, html, listed...)), nil
	}
	changed := func(_ context.Context, page *Page, _ *pageContext, html string, listed []string) (pageUpdate, error) {
		page.Spec.HTML, page.Finalizers = html, listed
		return framework.PatchResource(page), nil
	}
	for name, way := range map[string]struct {
		author  author
		options pageOptions
	}{
		"Apply":                   {apply(), pageOptions{}},
		"Apply by patch":          {apply(framework.WithMode(framework.ByPatch)), pageOptions{}},
		"Apply unconditionally":   {apply(framework.Unconditional()), pageOptions{}},
		"a fresh object by apply": {fresh, pageOptions{PrimaryWrites: framework.ByApply}},
		"a fresh object by patch": {fresh, pageOptions{}},
		"a changed copy":          {changed, pageOptions{}},
	} {
		t.Run(name, func(t *testing.T) {
			var inCleanup []string
			r := &cleaningPages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				listed := []string{"example.com/other"}
				if strings.HasPrefix(page.Spec.HTML, "first") {
					listed = append(listed, finalizer)
				}
				return way.author(ctx, page, c, strings.TrimSpace(page.Spec.HTML)+" ", listed)
			}
			r.cleanup = func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
				_, err := framework.Apply(ctx, c, intentFor(page, "cleaning", "example.com/other"))
				inCleanup = append(inCleanup, page.Finalizers...)
				return framework.RemoveFinalizer(), err
			}
			inVirtualTime(t, r, way.options, func(v *virtual) {
				v.createPage("p", "first")
				v.pass(time.Minute)
				v.patch(newPage("default", "p"), `{"spec":{"html":"second"}}`)
				v.pass(time.Minute)
				now := v.page("p")
				if now.Spec.HTML != "second " || !slices.Contains(now.Finalizers, finalizer) || !slices.Contains(now.Finalizers, "example.com/other") {
					t.Errorf("%q with finalizers %q", now.Spec.HTML, now.Finalizers)
				}
				v.delete("p")
				v.pass(time.Minute)
				if !slices.Contains(inCleanup, finalizer) {
					t.Errorf("cleaned up with finalizers %q", inCleanup)
				}
				if now := v.page("p"); !slices.Equal(now.Finalizers, []string{"example.com/other"}) || now.Spec.HTML != "cleaning" {
					t.Errorf("%q with finalizers %q, want the other's only", now.Spec.HTML, now.Finalizers)
				}
			})
		})
	}
}

// TestG09AFinalizerThatWasAppliedIsNotGivenUp, as by an operator before this one that put it on by
// apply: then no other field manager owns it.
func TestG09AFinalizerThatWasAppliedIsNotGivenUp(t *testing.T) {
	r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.RemoveFinalizer(), nil
	}}
	r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Apply(ctx, c, intentFor(page, "mine"))
		return pageUpdate{}, err
	})
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		applied := `{"apiVersion":"samples.evenkeel.dev/v1","kind":"WebPage","metadata":{"name":"p","namespace":"default",
			"finalizers":["` + finalizer + `"]},"spec":{"html":"theirs"}}`
		noError(t, v.admin.Patch(v.t.Context(), newPage("default", "p"), client.RawPatch(types.ApplyPatchType, []byte(applied)),
			client.FieldOwner("webpage"), client.ForceOwnership))
		v.pass(time.Minute)
		if now := v.page("p"); now.Spec.HTML != "mine" || !slices.Equal(now.Finalizers, []string{finalizer}) {
			t.Errorf("%q with finalizers %q", now.Spec.HTML, now.Finalizers)
		}
		// It is there all the time: it was neither taken off nor put on again.
		for _, c := range v.model.History() {
			if c.Resource == "webpages" && !slices.Contains(c.Object.GetFinalizers(), finalizer) {
				t.Errorf("version %d has finalizers %q", c.Version, c.Object.GetFinalizers())
			}
		}
	})
}
