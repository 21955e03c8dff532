package framework_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// shortRuns have given up long before an answer comes.
var shortRuns = pageOptions{RunTimeout: time.Minute}

// fates are the ways in which a request remains without an answer.
var fates = map[string]apimodel.Fault{
	"its answer is lost":           {Lose: true},
	"it is lost":                   {Drop: true},
	"its answer comes too late":    {Linger: 45 * time.Second},
	"it is carried out too late":   {Delay: 25 * time.Second, Linger: 45 * time.Second},
	"it is under way for too long": {Delay: 45 * time.Second},
}

// allocator makes one ConfigMap with a random name for each page, and notes the name in the status.
func allocator() *pages {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		owned, err := r.configMaps.Get(c)
		if err != nil {
			return pageUpdate{}, err
		}
		if owned == nil {
			desired := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"}}
			if owned, err = framework.Create(ctx, c, desired, framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
		}
		p.Status.URL = owned.Name
		return framework.PatchStatus(p), nil
	}
	return r
}

// withConfigMaps declares the secondaries of a reconciler.
func withConfigMaps(r *pages, options pageOptions) pageOptions {
	options.Secondaries = framework.Secondaries(&r.configMaps)
	return options
}

// unanswered gives a fate to the writes of a verb and resource, and loses the reads of the resource
// too if it is to.
func unanswered(fate apimodel.Fault, verb, resource string, readsToo bool) func(apimodel.Request) apimodel.Fault {
	return func(r apimodel.Request) apimodel.Fault {
		switch {
		case r.Resource == resource && r.Verb == verb:
			return fate
		case r.Resource == resource && r.Verb == "get" && readsToo:
			return apimodel.Fault{Drop: true}
		}
		return apimodel.Fault{}
	}
}

func TestG11ACreateOfUnknownFateKeepsItsNameAcrossRuns(t *testing.T) {
	for name, fate := range fates {
		for _, readsToo := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " and so are reads"}[readsToo], func(t *testing.T) {
				r := allocator()
				inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
					v.model.Lag("configmaps", 15*time.Minute) // the watch does not tell what became of it
					v.disturb(unanswered(fate, "create", "configmaps", readsToo))
					v.create(newPage("default", "p"))
					v.pass(10 * time.Minute)
					if failed := len(records(v.op, newPage("default", "p"))); failed < 2 {
						t.Errorf("%d runs: no run had to follow one that gave up", failed)
					}
					if n := framework.Unresolved(v.op); n > 1 {
						t.Errorf("G16: %d writes are kept for one of unknown fate", n)
					}
					v.disturb(nil)
					v.pass(20 * time.Minute)
					sent := slices.Compact(v.writes())
					made := v.commits("configmaps")
					if len(made) != 1 || len(sent) != 2 {
						t.Errorf("made %q with %q", made, sent)
					}
					if url := v.page("p").Status.URL; !strings.HasPrefix(made[0], "ADDED "+url+" by") || url == "" {
						t.Errorf("status %q, made %q", url, made)
					}
					v.atRest()
				})
			})
		}
	}
}

func TestAPatchOfUnknownFateIsMadeOnce(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
				p.Status.ObservedGeneration++ // shows how often it was patched
				if p.Status.URL == "" {
					p.Status.URL = "done"
					return framework.PatchStatus(p), nil
				}
				return framework.NoUpdate[*Page](), nil
			}}
			inVirtualTime(t, r, shortRuns, func(v *virtual) {
				v.disturb(unanswered(fate, "patch", "webpages", true))
				v.create(newPage("default", "p"))
				v.pass(10 * time.Minute)
				v.disturb(nil)
				v.pass(20 * time.Minute)
				if made, status := v.commits("webpages"), v.page("p").Status; len(made) != 2 || status.URL != "done" || status.ObservedGeneration != 1 {
					t.Errorf("commits %q, status %+v", made, status)
				}
				v.atRest()
			})
		})
	}
}

// TestG01ARunDoesNotBeginWithoutTheReadThatTheOneBeforeLacked: it is known that what was to be
// created is there, but nobody answers reads, and the watch does not tell.
func TestG01ARunDoesNotBeginWithoutTheReadThatTheOneBeforeLacked(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "p", nil).Status()
	for name, fates := range map[string][2]apimodel.Fault{
		"the answer is lost within a run":         {{Lose: true}},
		"the run gives the answer up":             {{Linger: 2 * time.Minute}},
		"rights are revoked after a lost attempt": {{Lose: true}, {Answer: &forbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			r, creates := &pages{}, 0
			var v *virtual
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				found, err := r.configMaps.GetNamed(c, p.Namespace, p.Name)
				if found != nil || err != nil {
					return pageUpdate{}, err
				}
				if n := len(v.commits("configmaps")); n > 0 {
					t.Errorf("a run reads none, but %d were created", n)
				}
				_, err = framework.Create(ctx, c, configMapOf(p, "x"))
				return pageUpdate{}, err
			}
			inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(virtual *virtual) {
				v = virtual
				v.model.Lag("configmaps", 15*time.Minute)
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					switch {
					case r.Resource == "configmaps" && r.Verb == "get":
						return apimodel.Fault{Drop: true}
					case r.Resource == "configmaps" && r.Verb == "create":
						if creates++; creates <= len(fates) {
							return fates[creates-1]
						}
					}
					return apimodel.Fault{}
				})
				v.create(newPage("default", "p"))
				v.pass(10 * time.Minute)
				v.disturb(nil)
				v.pass(20 * time.Minute)
				v.atRest()
			})
		})
	}
}

// TestG01ARunDoesNotBeginWithoutTheReadThatARefusedApplyLacked: an apply is carried out and its
// answer lost, so its repetition is refused for its version; nobody answers what follows, and the
// watch does not tell.
func TestG01ARunDoesNotBeginWithoutTheReadThatARefusedApplyLacked(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "p", nil).Status()
	for resource, unanswered := range map[string][]apimodel.Fault{
		"configmaps": {{}, {Lose: true}, {}, {Answer: &forbidden}}, // the first makes the object
		"webpages":   {{Lose: true}, {}},                           // its status, which is not repeated without a version
	} {
		t.Run(resource, func(t *testing.T) {
			r, applies := &pages{}, 0
			var v *virtual
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				found, err := r.configMaps.GetNamed(c, p.Namespace, p.Name)
				if err != nil {
					return pageUpdate{}, err
				}
				stored := v.model.Objects("configmaps")
				if len(stored) > 0 && (found == nil || found.ResourceVersion != stored[0].GetResourceVersion()) {
					t.Errorf("a run reads %v, stored is %s", found, stored[0].GetResourceVersion())
				}
				if v.page("p").ResourceVersion != p.ResourceVersion {
					t.Errorf("a run reads its primary at %s, stored is %s", p.ResourceVersion, v.page("p").ResourceVersion)
				}
				if _, err := framework.Apply(ctx, c, configMapOf(p, "x")); err != nil {
					return pageUpdate{}, err
				}
				desired := &Page{TypeMeta: p.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
				desired.Status.URL = p.Spec.HTML
				if _, err := framework.ApplyStatus(ctx, c, desired); err != nil {
					return pageUpdate{}, err
				}
				_, err = framework.Apply(ctx, c, configMapOf(p, p.Spec.HTML))
				return pageUpdate{}, err
			}
			inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(virtual *virtual) {
				v = virtual
				v.model.Lag("configmaps", 15*time.Minute)
				v.model.Lag("webpages", 15*time.Minute)
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					switch {
					case r.Resource == resource && r.Verb == "get":
						return apimodel.Fault{Drop: true}
					case r.Resource == resource && r.Verb == "apply":
						if applies++; applies <= len(unanswered) {
							return unanswered[applies-1]
						}
					}
					return apimodel.Fault{}
				})
				v.create(newPage("default", "p"))
				v.pass(25 * time.Minute)
				v.disturb(nil)
				v.pass(20 * time.Minute)
				if applies < len(unanswered) {
					t.Errorf("%d applies came, want at least %d", applies, len(unanswered))
				}
				v.atRest()
			})
		})
	}
}

// TestG14ADeletionOfUnknownFateHitsOnlyWhatWasRead: while nobody answers, somebody makes another
// object of that name.
func TestG14ADeletionOfUnknownFateHitsOnlyWhatWasRead(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			r := &pages{}
			r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
				if p.Spec.HTML != "gone" {
					_, err := framework.Apply(ctx, c, configMapOf(p, "x"), framework.OwnedByPrimary())
					return pageUpdate{}, err
				}
				owned, err := r.configMaps.Get(c)
				if err != nil || owned == nil {
					return pageUpdate{}, err
				}
				return pageUpdate{}, framework.Delete(ctx, c, owned)
			}
			inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
				page := newPage("default", "p")
				v.create(page)
				v.pass(time.Minute)
				v.disturb(unanswered(fate, "delete", "configmaps", true))
				v.patch(page, `{"spec":{"html":"gone"}}`)
				v.pass(10 * time.Minute)
				foreign := len(v.model.Objects("configmaps")) == 0
				if foreign {
					v.create(configMapOf(page, "somebody else's"))
				}
				v.pass(10 * time.Minute)
				v.disturb(nil)
				v.pass(20 * time.Minute)
				left := v.model.Objects("configmaps")
				if (foreign && len(left) != 1) || (!foreign && len(left) != 0) {
					t.Errorf("foreign: %v, left: %d", foreign, len(left))
				}
				v.atRest()
			})
		})
	}
}

// TestG16AWriteOfUnknownFateIsForgottenWithItsPrimary: the page goes while a run of it waits for an
// answer, and another of that name comes.
func TestG16AWriteOfUnknownFateIsForgottenWithItsPrimary(t *testing.T) {
	r := allocator()
	inVirtualTime(t, r, withConfigMaps(r, shortRuns), func(v *virtual) {
		v.disturb(unanswered(apimodel.Fault{Drop: true}, "create", "configmaps", true))
		first := newPage("default", "p")
		v.create(first)
		v.pass(30 * time.Second) // in the midst of the first run
		if err := v.admin.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		v.pass(10 * time.Minute)
		if n := framework.Unresolved(v.op); n != 0 {
			t.Errorf("writes of %d primaries are unresolved, and there is no primary", n)
		}
		v.disturb(nil)
		second := newPage("default", "p")
		v.create(second)
		v.pass(20 * time.Minute)
		for _, made := range v.model.Objects("configmaps") {
			if owner := metav1.GetControllerOf(made); owner.UID != second.UID {
				t.Errorf("%s was made for a page that is gone", made.GetName())
			}
		}
		v.atRest()
	})
}

func TestG15AReadThatIsNotAnsweredIsGivenUp(t *testing.T) {
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "get" {
				return apimodel.Fault{Linger: time.Hour}
			}
			return apimodel.Fault{}
		})
		intent := configMapOf(newPage("default", "p"), "x")
		intent.ResourceVersion = "7" // who has it, is to be read first
		started := time.Now()
		_, err := framework.Apply(context.Background(), v.op.Writer("outside"), intent)
		if took := time.Since(started); err == nil || took > time.Minute {
			t.Errorf("%v after %v, want an error after half a minute", err, took)
		}
	})
}

// TestG19AWriteOfUnknownFateDoesNotHoldUpTheEnd: it is repeated until the grace of the end is over,
// and no longer.
func TestG19AWriteOfUnknownFateDoesNotHoldUpTheEnd(t *testing.T) {
	overloaded := apimodel.Fault{Answer: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
	}}
	for grace, within := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, -1: 0} {
		t.Run(fmt.Sprint("a grace of ", grace), func(t *testing.T) {
			r := allocator()
			inVirtualTimeWith(t, framework.OperatorOptions{Grace: grace}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
				v.disturb(unanswered(overloaded, "create", "configmaps", false))
				v.create(newPage("default", "p"))
				v.pass(500 * time.Millisecond)
				if sent := v.writes(); len(sent) < 3 { // the finalizer, and more than one try
					t.Fatalf("sent %q", sent)
				}
				began := time.Now()
				noError(t, v.stop())
				if took := time.Since(began); took != within {
					t.Errorf("it took %v to stop, want %v", took, within)
				}
				v.writes()
				v.pass(time.Hour)
				if sent := v.writes(); len(sent) != 0 {
					t.Errorf("sent after the end: %q", sent)
				}
			})
		})
	}
}
