package framework_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// manySecondaries is more than a run is told of one by one.
func manySecondaries() int { return depth.Of(100, 200, 200) }

// numbered is one of many ConfigMaps of a page.
func numbered(p *Page, i int, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("%s-%03d", p.Name, i)},
		Data:       map[string]string{"data": data},
	}
}

// waysToMany are the ways in which a run may give its page many ConfigMaps that say what the page
// does.
var waysToMany = map[string]func(ctx context.Context, r *pages, p *Page, c *pageContext, i int) error{
	"applies": func(ctx context.Context, _ *pages, p *Page, c *pageContext, i int) error {
		_, err := framework.Apply(ctx, c, numbered(p, i, p.Spec.HTML), framework.OwnedByPrimary())
		return err
	},
	"applies by patch": func(ctx context.Context, _ *pages, p *Page, c *pageContext, i int) error {
		_, err := framework.Apply(ctx, c, numbered(p, i, p.Spec.HTML), framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
		return err
	},
	"creates and updates": func(ctx context.Context, r *pages, p *Page, c *pageContext, i int) error {
		desired := numbered(p, i, p.Spec.HTML)
		found, err := r.configMaps.GetNamed(c, desired.Namespace, desired.Name)
		switch {
		case err != nil:
		case found == nil:
			_, err = framework.Create(ctx, c, desired, framework.OwnedByPrimary())
		case found.Data["data"] != p.Spec.HTML:
			found.Data = desired.Data
			_, err = framework.Update(ctx, c, found)
		}
		return err
	},
	"applies each twice": func(ctx context.Context, _ *pages, p *Page, c *pageContext, i int) error {
		for _, data := range []string{"at first", p.Spec.HTML} {
			if _, err := framework.Apply(ctx, c, numbered(p, i, data), framework.OwnedByPrimary()); err != nil {
				return err
			}
		}
		return nil
	},
}

// TestG05ManyWritesOfARunBringNoFurtherRun, whether their echoes come before or after their
// answers.
func TestG05ManyWritesOfARunBringNoFurtherRun(t *testing.T) {
	for way, write := range waysToMany {
		for _, parallel := range []bool{false, true} {
			for when, fault := range map[string]apimodel.Fault{
				"before their answers": {Linger: 50 * time.Millisecond}, "with their answers": {},
			} {
				if fault == (apimodel.Fault{}) && way != "applies" {
					continue // for the ways differ in what comes early
				}
				name := way + map[bool]string{true: " at once"}[parallel] + ", echoes " + when
				t.Run(name, func(t *testing.T) {
					r := &pages{}
					r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
						return pageUpdate{}, eachOf(manySecondaries(), parallel, func(i int) error { return write(ctx, r, p, c, i) })
					}
					inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
						v.disturb(func(r apimodel.Request) apimodel.Fault {
							if r.Resource == "configmaps" && r.Verb != "watch" && r.Verb != "list" {
								return fault
							}
							return apimodel.Fault{}
						})
						page := newPage("default", "p")
						v.create(page)
						v.pass(10 * time.Minute)
						v.expectRuns("created", page, 1)
						if n := len(v.model.Objects("configmaps")); n != manySecondaries() {
							t.Errorf("%d ConfigMaps", n)
						}
						if way == "applies each twice" {
							return // it writes in each run
						}
						v.patch(page, `{"spec":{"html":"changed"}}`)
						v.pass(10 * time.Minute)
						v.expectRuns("changed", page, 2)
						v.patch(numbered(page, 77, ""), `{"data":{"data":"theirs"}}`)
						v.pass(10 * time.Minute)
						v.expectRuns("changed by others", page, 3)
						v.atRest()
					})
				})
			}
		}
	}
}

// eachOf calls f for each number below n, one after the other or all at once.
func eachOf(n int, parallel bool, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		if parallel {
			all.Go(func() { errs[i] = f(i) })
		} else {
			errs[i] = f(i)
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

func (v *virtual) expectRuns(when string, page *Page, n int) {
	v.t.Helper()
	if all := records(v.op, page); len(all) != n {
		v.t.Errorf("%s: %d runs of %s, want %d; the causes of the last: %v", when, len(all), page.Name, n, all[len(all)-1].Causes)
	}
}

// TestG05ManySecondariesOfManyPrimaries: each of them is due once for what the other wrote.
func TestG05ManySecondariesOfManyPrimaries(t *testing.T) {
	r := &pages{}
	shared := newPage("default", "shared")
	r.configMaps.Map = func(*corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: "a"}, {Namespace: "default", Name: "b"}}
	}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		return pageUpdate{}, eachOf(manySecondaries(), p.Name == "b", func(i int) error {
			_, err := framework.Apply(ctx, c, numbered(shared, i, "x"))
			return err
		})
	}
	inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "apply" {
				return apimodel.Fault{Linger: 10 * time.Millisecond}
			}
			return apimodel.Fault{}
		})
		a, b := newPage("default", "a"), newPage("default", "b")
		v.create(a)
		v.pass(10 * time.Minute)
		v.expectRuns("alone", a, 1)
		v.create(b)
		v.pass(10 * time.Minute)
		v.expectRuns("with the other", a, 1)
		v.expectRuns("with the other", b, 1)
		for i := range manySecondaries() {
			v.patch(numbered(shared, i, ""), `{"data":{"data":"theirs"}}`)
		}
		v.pass(10 * time.Minute)
		before := len(records(v.op, a)) + len(records(v.op, b))
		v.writes()
		v.pass(time.Hour)
		if after := len(records(v.op, a)) + len(records(v.op, b)); after != before || before > 8 {
			t.Errorf("%d runs, %d an hour later", before, after)
		}
		v.atRest()
	})
}

// TestG05ManyDeletionsOfARunBringOneFurtherRun, and after a relist that hides all of it none is
// brought by each.
func TestG05ManyDeletionsOfARunBringOneFurtherRun(t *testing.T) {
	for _, relist := range []bool{false, true} {
		t.Run(map[bool]string{true: "relist", false: "watch"}[relist], func(t *testing.T) {
			r := &pages{}
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				return pageUpdate{}, eachOf(manySecondaries(), false, func(i int) error {
					if p.Spec.HTML != "none" {
						_, err := framework.Apply(ctx, c, numbered(p, i, p.Spec.HTML), framework.OwnedByPrimary())
						return err
					}
					found, err := r.configMaps.GetNamed(c, p.Namespace, numbered(p, i, "").Name)
					if err != nil || found == nil {
						return err
					}
					return framework.Delete(ctx, c, found)
				})
			}
			inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource == "configmaps" && (r.Verb == "apply" || r.Verb == "delete") {
						return apimodel.Fault{Linger: 10 * time.Millisecond}
					}
					return apimodel.Fault{}
				})
				gap := func() {
					if !relist {
						return
					}
					v.model.Expire("configmaps")
					v.model.Release("configmaps")
				}
				if relist {
					v.model.Stall("configmaps")
				}
				page := newPage("default", "p")
				v.create(page)
				v.pass(10 * time.Minute)
				gap()
				v.pass(10 * time.Minute)
				v.expectRuns("created", page, 1)
				if relist {
					v.model.Stall("configmaps")
				}
				v.patch(page, `{"spec":{"html":"none"}}`)
				v.pass(10 * time.Minute)
				gap()
				v.pass(10 * time.Minute)
				v.expectRuns("deleted", page, 3)
				v.atRest()
			})
		})
	}
}
