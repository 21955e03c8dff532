package framework_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/retry"
)

// TestG13ASocketThatBreaksLeavesTheFateOfACreateUnknown: whatever the network stack says, unless
// the connection was never made, the server may have carried it out. One object is made, whether it
// had or not.
func TestG13ASocketThatBreaksLeavesTheFateOfACreateUnknown(t *testing.T) {
	for what, broken := range apimodel.SocketErrors() {
		for _, watched := range []bool{false, true} {
			for how, fault := range map[string]apimodel.Fault{
				"after the commit": {Lose: true, As: broken}, "before it": {Drop: true, As: broken},
			} {
				if depth.Raced() && !depth.Long() && watched != fault.Lose {
					continue // make test runs all of them without the race detector
				}
				t.Run(fmt.Sprintf("%s %s, watched %t", what, how, watched), func(t *testing.T) {
					r, options := unwatched(framework.OwnedByPrimary()), pageOptions{}
					if watched {
						r = allocator()
						options = withConfigMaps(r, options)
					}
					inVirtualTime(t, r, options, func(v *virtual) {
						v.model.Lag("configmaps", time.Hour) // or the watch tells what became of it
						var tries atomic.Int32
						v.disturb(func(r apimodel.Request) apimodel.Fault {
							if r.Resource == "configmaps" && r.Verb == "create" {
								if tries.Add(1) == 1 {
									return fault
								}
							}
							return apimodel.Fault{}
						})
						page := newPage("default", "p")
						v.create(page)
						v.pass(10 * time.Minute)
						v.expectOneMade("p")
						for _, record := range records(v.op, page) {
							if record.Err != "" {
								t.Errorf("a run failed: %s", record.Err)
							}
						}
						if tries.Load() != 2 {
							t.Errorf("%d requests, want the repetition of the first", tries.Load())
						}
						v.pass(2 * time.Hour)
						v.atRest()
					})
				})
			}
		}
	}
}

// TestARequestThatNeverLeftHasAFate: nobody listened. It is a failure at once, and nothing is read
// or repeated for it.
func TestARequestThatNeverLeftHasAFate(t *testing.T) {
	inVirtualTime(t, unwatched(), pageOptions{Retry: everySecond}, func(v *virtual) {
		requests := 0
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource != "configmaps" {
				return apimodel.Fault{}
			}
			if requests++; requests == 1 {
				return apimodel.Fault{Drop: true, As: apimodel.ErrRefused}
			}
			return apimodel.Fault{}
		})
		page := newPage("default", "p")
		v.create(page)
		v.pass(500 * time.Millisecond)
		if all := records(v.op, page); len(all) != 1 || !strings.Contains(all[0].Err, "refused") || requests != 1 || framework.Unresolved(v.op) != 0 {
			t.Errorf("%d requests, runs %+v", requests, all)
		}
		v.pass(time.Minute)
		v.expectOneMade("p")
		v.atRest()
	})
}

// TestAServerThatIsGoneAfterALostAnswerLeavesItUnknown: the first attempt was carried out, and then
// nobody listens.
func TestAServerThatIsGoneAfterALostAnswerLeavesItUnknown(t *testing.T) {
	for _, watched := range []bool{false, true} {
		t.Run(fmt.Sprint("watched ", watched), func(t *testing.T) {
			r, options := unwatched(framework.OwnedByPrimary()), pageOptions{RunTimeout: 10 * time.Second, Retry: retry.Policy{Initial: 10 * time.Second, Factor: 1}}
			if watched {
				r = allocator()
				options = withConfigMaps(r, options)
			}
			inVirtualTime(t, r, options, func(v *virtual) {
				v.model.Lag("configmaps", time.Hour)
				away := time.Now().Add(2 * time.Minute)
				var tries atomic.Int32
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource == "configmaps" && r.Verb == "create" {
						if tries.Add(1) == 1 {
							return apimodel.Fault{Lose: true, As: apimodel.SocketErrors()["a reset while reading"]}
						}
					}
					if tries.Load() > 0 && time.Now().Before(away) {
						return apimodel.Fault{Drop: true, As: apimodel.ErrRefused}
					}
					return apimodel.Fault{}
				})
				v.create(newPage("default", "p"))
				v.pass(30 * time.Minute)
				v.expectOneMade("p")
				v.pass(2 * time.Hour)
				v.atRest()
			})
		})
	}
}

// TestASocketThatBreaksAtAnyWriteIsNoticedOnce: patches and applies are carried out once, deletions
// hit what was read.
func TestASocketThatBreaksAtAnyWriteIsNoticedOnce(t *testing.T) {
	for what, broken := range apimodel.SocketErrors() {
		t.Run(what, func(t *testing.T) {
			r := &pages{}
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				if p.Spec.HTML == "none" {
					found, err := r.configMaps.Get(c)
					if err != nil || found == nil {
						return pageUpdate{}, err
					}
					return pageUpdate{}, framework.Delete(ctx, c, found)
				}
				if _, err := framework.Apply(ctx, c, configMapOf(p, p.Spec.HTML), framework.OwnedByPrimary()); err != nil {
					return pageUpdate{}, err
				}
				if p.Status.URL == p.Spec.HTML {
					return framework.NoUpdate[*Page](), nil
				}
				p.Status.URL, p.Status.ObservedGeneration = p.Spec.HTML, p.Status.ObservedGeneration+1
				return framework.PatchStatus(p), nil
			}
			inVirtualTime(t, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
				tries := map[string]int{}
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					key := r.Verb + " " + r.Resource
					if r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" || r.Resource == "events" {
						return apimodel.Fault{}
					}
					if tries[key]++; tries[key]%2 == 1 {
						return apimodel.Fault{Lose: true, As: broken}
					}
					return apimodel.Fault{}
				})
				page := newPage("default", "p")
				v.create(page)
				for i, html := range []string{"1", "2", "3"} {
					v.patch(page, `{"spec":{"html":"`+html+`"}}`)
					v.pass(10 * time.Minute)
					if status := v.page("p").Status; status.URL != html || status.ObservedGeneration < int64(i+1) || status.ObservedGeneration > int64(i+2) {
						t.Errorf("status %+v after %q", status, html)
					}
				}
				v.patch(page, `{"spec":{"html":"none"}}`)
				v.pass(10 * time.Minute)
				if left := v.model.Objects("configmaps"); len(left) > 0 {
					t.Errorf("%d ConfigMaps are left", len(left))
				}
				for _, record := range records(v.op, page) {
					if record.Err != "" {
						t.Errorf("a run failed, though nothing but connections did: %s", record.Err)
					}
				}
				v.atRest()
			})
		})
	}
}

// TestG14AnAnswerThatIsLostTwiceLeavesAForeignObjectAlone: the name was ours, and is another's
// since.
func TestG14AnAnswerThatIsLostTwiceLeavesAForeignObjectAlone(t *testing.T) {
	inVirtualTime(t, unwatched(), pageOptions{}, func(v *virtual) {
		tries := 0
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource != "configmaps" || r.Verb != "create" {
				return apimodel.Fault{}
			}
			switch tries++; tries {
			case 1:
				return apimodel.Fault{Lose: true}
			case 2: // somebody has taken the place of what was made
				ours := v.model.Objects("configmaps")[0]
				noError(t, v.admin.Delete(t.Context(), ours.DeepCopy()))
				v.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: ours.GetName()}})
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		if made := v.commits("configmaps"); len(made) != 4 || v.page("p").Status.URL == strings.Fields(made[0])[1] {
			t.Errorf("made %q, the page knows %q", made, v.page("p").Status.URL)
		}
	})
}
