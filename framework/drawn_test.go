package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// unwatched makes one ConfigMap with a drawn name for each page, which it cannot see in any cache:
// it notes the name in the status.
func unwatched(options ...framework.WriteOption) *pages {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if p.Status.URL != "" {
			return framework.NoUpdate[*Page](), nil
		}
		made, err := framework.Create(ctx, c, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-", Labels: map[string]string{"a": "b"}},
			Data:       map[string]string{"data": p.Spec.HTML},
		}, options...)
		if err != nil {
			return pageUpdate{}, err
		}
		p.Status.URL = made.Name
		return framework.PatchStatus(p), nil
	}
	return r
}

// expectOneMade checks that one ConfigMap was made, and that its page knows it.
func (v *virtual) expectOneMade(page string) {
	v.t.Helper()
	made, url := v.commits("configmaps"), v.page(page).Status.URL
	if len(made) != 1 || url == "" || !strings.HasPrefix(made[0], "ADDED "+url+" by") {
		v.t.Errorf("made %q, the page knows %q", made, url)
	}
}

// TestG13ACreateWithADrawnNameIsMadeOnceThoughNoCacheShowsIt, within a run and across runs.
func TestG13ACreateWithADrawnNameIsMadeOnceThoughNoCacheShowsIt(t *testing.T) {
	for whose, options := range map[string][]framework.WriteOption{"owned": {framework.OwnedByPrimary()}, "nobody's": nil} {
		for name, fate := range fates {
			for _, readsToo := range []bool{false, true} {
				t.Run(whose+", "+name+map[bool]string{true: " and so are reads"}[readsToo], func(t *testing.T) {
					inVirtualTime(t, unwatched(options...), shortRuns, func(v *virtual) {
						v.disturb(unanswered(fate, "create", "configmaps", readsToo))
						v.create(newPage("default", "p"))
						v.pass(10 * time.Minute)
						v.disturb(nil)
						v.pass(20 * time.Minute)
						v.expectOneMade("p")
						v.atRest()
					})
				})
			}
		}
	}
}

// TestADrawnNameThatExistsAfterALostAttemptIsSuccess, in the same run.
func TestADrawnNameThatExistsAfterALostAttemptIsSuccess(t *testing.T) {
	for changed, change := range map[string]func(v *virtual, m client.Object){
		"unchanged": func(*virtual, client.Object) {},
		"changed by admission": func(v *virtual, m client.Object) {
			v.patch(m, `{"data":{"data":"admitted"},"metadata":{"labels":null}}`)
		},
		"marked by somebody": func(v *virtual, m client.Object) { v.patch(m, `{"metadata":{"finalizers":["a/b"]}}`) },
		"in deletion in the interim": func(v *virtual, m client.Object) {
			v.patch(m, `{"metadata":{"finalizers":["a/b"]}}`)
			noError(v.t, v.admin.Delete(v.t.Context(), m))
		},
	} {
		t.Run(changed, func(t *testing.T) {
			inVirtualTime(t, unwatched(framework.OwnedByPrimary()), pageOptions{}, func(v *virtual) {
				tries := 0
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource != "configmaps" || r.Verb != "create" {
						return apimodel.Fault{}
					}
					if tries++; tries == 1 {
						return apimodel.Fault{Lose: true}
					}
					change(v, v.model.Objects("configmaps")[0].DeepCopy())
					return apimodel.Fault{}
				})
				page := newPage("default", "p")
				v.create(page)
				v.pass(time.Minute)
				v.expectRuns("the answer is lost", page, 1)
				if made, url := v.commits("configmaps")[0], v.page("p").Status.URL; !strings.HasPrefix(made, "ADDED "+url+" by") || tries != 2 {
					t.Errorf("made %q, the page knows %q; %d tries", made, url, tries)
				}
				v.atRest()
			})
		})
	}
}

// TestG14ADrawnNameThatSomebodyElseHasIsNotTaken: the attempt is lost on its way, and another takes
// the name.
func TestG14ADrawnNameThatSomebodyElseHasIsNotTaken(t *testing.T) {
	for whose, options := range map[string][]framework.WriteOption{"owned": {framework.OwnedByPrimary()}, "nobody's": nil} {
		t.Run(whose, func(t *testing.T) {
			inVirtualTime(t, unwatched(options...), pageOptions{}, func(v *virtual) {
				var theirs *corev1.ConfigMap
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource != "configmaps" || r.Verb != "create" || theirs != nil {
						return apimodel.Fault{}
					}
					name := nameIn(r.Body)
					theirs = &corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, GenerateName: "p-", Labels: map[string]string{"a": "b"}},
						Data:       map[string]string{"data": "<html/>"},
					}
					v.create(theirs)
					return apimodel.Fault{Drop: true}
				})
				v.create(newPage("default", "p"))
				v.pass(time.Minute)
				made := v.commits("configmaps")
				if url := v.page("p").Status.URL; len(made) != 2 || url == theirs.Name || !strings.HasPrefix(made[1], "ADDED "+url+" by") {
					t.Errorf("made %q, the page knows %q", made, url)
				}
				v.atRest()
			})
		})
	}
}

// TestG13WhatAFormerRunMadeIsNotTakenForAFurtherOne: whoever sees in a cache what was made asks for
// what is still missing.
func TestG13WhatAFormerRunMadeIsNotTakenForAFurtherOne(t *testing.T) {
	for _, watched := range []bool{true, false} {
		t.Run(fmt.Sprint("watched: ", watched), func(t *testing.T) {
			r := &pages{}
			const wanted = 3
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				there := len(strings.Split(p.Status.URL, " ")) - 1
				if watched {
					found, err := r.configMaps.List(c)
					if err != nil {
						return pageUpdate{}, err
					}
					there = len(found)
				}
				for ; there < wanted; there++ {
					made, err := framework.Create(ctx, c, &corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"},
					}, framework.OwnedByPrimary())
					if err != nil {
						return pageUpdate{}, err
					}
					if !watched {
						p.Status.URL += " " + made.Name
						if _, err := framework.ApplyStatus(ctx, c, &Page{
							ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Status: p.Status,
						}); err != nil {
							return pageUpdate{}, err
						}
					}
				}
				return pageUpdate{}, nil
			}
			options := shortRuns
			if watched {
				options = withConfigMaps(r, options)
			}
			inVirtualTime(t, r, options, func(v *virtual) {
				creates := 0
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource == "configmaps" && r.Verb == "create" {
						if creates++; creates > 1 && creates < 8 {
							return apimodel.Fault{Linger: 45 * time.Second}
						}
					}
					return apimodel.Fault{}
				})
				v.create(newPage("default", "p"))
				v.pass(30 * time.Minute)
				if made := v.commits("configmaps"); len(made) != wanted {
					t.Errorf("made %q", made)
				}
				v.atRest()
			})
		})
	}
}

// TestG13ARunThatAsksAgainForWhatItLostDrawsNoFurtherName.
func TestG13ARunThatAsksAgainForWhatItLostDrawsNoFurtherName(t *testing.T) {
	r := unwatched(framework.OwnedByPrimary())
	once := r.reconcile
	var asked atomic.Int32
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		update, err := once(ctx, p, c)
		if err != nil {
			asked.Add(1)
			return once(ctx, p, c)
		}
		return update, nil
	}
	inVirtualTime(t, r, pageOptions{RunTimeout: 10 * time.Minute}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			switch {
			case r.Resource != "configmaps" || asked.Load() > 0:
				return apimodel.Fault{}
			case r.Verb == "create":
				return apimodel.Fault{Lose: true}
			}
			return apimodel.Fault{Drop: true} // nor can it be read what became of it
		})
		v.create(newPage("default", "p"))
		v.pass(30 * time.Minute)
		v.expectOneMade("p")
		if n := asked.Load(); n != 1 {
			t.Errorf("asked again %d times", n)
		}
		v.atRest()
	})
}

// TestADrawnNameOfAWriteOutsideOfRunsIsMadeOnce.
func TestADrawnNameOfAWriteOutsideOfRunsIsMadeOnce(t *testing.T) {
	inVirtualTime(t, unwatched(), pageOptions{}, func(v *virtual) {
		lost := 0
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "create" {
				if lost++; lost == 1 {
					return apimodel.Fault{Lose: true}
				}
			}
			return apimodel.Fault{}
		})
		for _, manager := range []string{"outside", ""} {
			lost = 0
			made, err := framework.Create(context.Background(), v.op.Writer(manager), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "x-"}, Data: map[string]string{"a": "b"},
			})
			if err != nil || made.UID == "" || made.Data["a"] != "b" || lost != 2 {
				t.Errorf("%v, %v after %d tries", made, err, lost)
			}
		}
		if made := v.commits("configmaps"); len(made) != 2 {
			t.Errorf("made %q", made)
		}
	})
}

// TestG16WhatRunsMadeIsForgotten once a run has succeeded without asking for it, and with its
// primary.
func TestG16WhatRunsMadeIsForgotten(t *testing.T) {
	for _, how := range []string{"a run succeeds", "the page goes"} {
		t.Run(how, func(t *testing.T) {
			r, stage := unwatched(), new(atomic.Value)
			stage.Store("create")
			creates := r.reconcile
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				switch stage.Load() {
				case "create":
					return creates(ctx, p, c)
				case "fail":
					return pageUpdate{}, errors.New("something else")
				}
				return pageUpdate{}, nil
			}
			inVirtualTime(t, r, shortRuns, func(v *virtual) {
				v.disturb(unanswered(apimodel.Fault{Linger: 45 * time.Second}, "create", "configmaps", false))
				page := newPage("default", "p")
				v.create(page)
				v.pass(90 * time.Second)
				v.disturb(nil)
				stage.Store("fail")
				v.pass(10 * time.Minute)
				if n := framework.Unresolved(v.op); n != 1 {
					t.Errorf("%d are kept while runs fail", n)
				}
				if stage.Store("succeed"); how == "the page goes" {
					v.delete("p")
				}
				v.pass(10 * time.Minute)
				if n := framework.Unresolved(v.op); n != 0 {
					t.Errorf("%d are kept", n)
				}
				if made := v.commits("configmaps"); len(made) != 1 {
					t.Errorf("made %q", made)
				}
			})
		})
	}
}

// TestG13AServerThatFailsOnACreateItHasCarriedOutMakesOneObject: etcd took too long to answer it,
// say.
func TestG13AServerThatFailsOnACreateItHasCarriedOutMakesOneObject(t *testing.T) {
	for name, status := range map[string]metav1.Status{
		"internal error": {Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcdserver: request timed out"},
		"unavailable":    {Code: 503, Reason: metav1.StatusReasonServiceUnavailable},
		"timeout":        {Code: 504, Reason: metav1.StatusReasonTimeout},
		"not now":        {Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Details: &metav1.StatusDetails{RetryAfterSeconds: 5}},
	} {
		for _, carriedOut := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", carried out ", carriedOut), func(t *testing.T) {
				inVirtualTime(t, unwatched(framework.OwnedByPrimary()), pageOptions{Retry: everySecond}, func(v *virtual) {
					tries := 0
					v.disturb(func(r apimodel.Request) apimodel.Fault {
						if r.Resource == "configmaps" && r.Verb == "create" {
							if tries++; tries == 1 {
								return apimodel.Fault{Answer: &status, Done: carriedOut}
							}
						}
						return apimodel.Fault{}
					})
					v.create(newPage("default", "p"))
					v.pass(10 * time.Minute)
					v.expectOneMade("p")
					v.atRest()
				})
			})
		}
	}
}
