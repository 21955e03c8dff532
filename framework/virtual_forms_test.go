package framework_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

// toolbox reads tools in every form that a test registers, all of which belong to page p.
type toolbox struct {
	pages
	typed    framework.Secondary[*Tool]
	whole    framework.Secondary[*unstructured.Unstructured]
	metadata framework.Secondary[*metav1.PartialObjectMetadata]
	runs     atomic.Int32
}

func newToolbox(work func(b *toolbox, ctx context.Context, c *pageContext, run int)) *toolbox {
	toP := []types.NamespacedName{{Namespace: "default", Name: "p"}}
	b := &toolbox{
		typed:    framework.Secondary[*Tool]{Name: "typed", Map: func(*Tool) []types.NamespacedName { return toP }},
		whole:    framework.Secondary[*unstructured.Unstructured]{Name: "whole", GroupVersionKind: toolKind, Map: func(*unstructured.Unstructured) []types.NamespacedName { return toP }},
		metadata: framework.Secondary[*metav1.PartialObjectMetadata]{Name: "metadata", GroupVersionKind: toolKind, Map: func(*metav1.PartialObjectMetadata) []types.NamespacedName { return toP }},
	}
	b.reconcile = func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		work(b, ctx, c, int(b.runs.Add(1)))
		return pageUpdate{}, nil
	}
	return b
}

// all are the secondaries of every form.
func (b *toolbox) all() pageOptions {
	return pageOptions{Retry: slow, Secondaries: framework.Secondaries(&b.typed, &b.whole, &b.metadata)}
}

// shows returns what the unstructured cache shows, checked to be at the same version as the others
// show.
func (b *toolbox) shows(t *testing.T, c *pageContext, name string) string {
	t.Helper()
	whole, err := b.whole.GetNamed(c, "default", name)
	noError(t, err)
	typed, err := b.typed.GetNamed(c, "default", name)
	noError(t, err)
	metadata, err := b.metadata.GetNamed(c, "default", name)
	noError(t, err)
	if whole == nil || typed == nil || metadata == nil {
		if whole != nil || typed != nil || metadata != nil {
			t.Errorf("%s is shown as %v, %v, %v", name, whole, typed, metadata)
		}
		return "nothing"
	}
	if whole.GetResourceVersion() != typed.ResourceVersion || typed.ResourceVersion != metadata.ResourceVersion {
		t.Errorf("%s is shown at %s, %s and %s", name, whole.GetResourceVersion(), typed.ResourceVersion, metadata.ResourceVersion)
	}
	return specOf(whole)
}

// live is a tool as the server has it.
func (v *virtual) live(name string) *unstructured.Unstructured {
	v.t.Helper()
	u := wholeTool(name, nil)
	noError(v.t, v.admin.Get(v.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u))
	return u
}

// changeTool patches a tool as somebody else.
func (v *virtual) changeTool(name, patch string) {
	v.t.Helper()
	v.patch(wholeTool(name, nil), patch)
}

// TestG01G04AWriteInAPoorerFormIsShownWholeByEveryCache: the Go type lacks color. What the caches
// show of the version that a typed write made is what the server has at that version, at once, and
// changes of others bring runs as ever.
func TestG01G04AWriteInAPoorerFormIsShownWholeByEveryCache(t *testing.T) {
	patch := []byte(`{"spec":{"size":2}}`)
	for _, way := range []struct {
		name  string
		write func(ctx context.Context, b *toolbox, c *pageContext) error
		want  string
	}{
		{"an apply", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.Apply(ctx, c, newTool("t", 2))
			return err
		}, `{"color":"red","size":2}`},
		{"an apply by patch", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.Apply(ctx, c, newTool("t", 2), framework.WithMode(framework.ByPatch))
			return err
		}, `{"color":"red","size":2}`},
		{"a merge patch", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.MergePatch(ctx, c, newTool("t", 0), patch)
			return err
		}, `{"color":"red","size":2}`},
		{"an unconditional patch", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.MergePatch(ctx, c, newTool("t", 0), patch, framework.Unconditional())
			return err
		}, `{"color":"red","size":2}`},
		{"a JSON patch", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.JSONPatch(ctx, c, newTool("t", 0), []byte(`[{"op":"replace","path":"/spec/size","value":2}]`))
			return err
		}, `{"color":"red","size":2}`},
		{"an update, which takes away what the type lacks", func(ctx context.Context, b *toolbox, c *pageContext) error {
			tool, err := b.typed.GetNamed(c, "default", "t")
			if err != nil {
				return err
			}
			tool.Spec.Size = 2
			_, err = framework.Update(ctx, c, tool)
			return err
		}, `{"size":2}`},
		{"the status", func(ctx context.Context, b *toolbox, c *pageContext) error {
			tool, err := b.typed.GetNamed(c, "default", "t")
			if err != nil {
				return err
			}
			tool.Status.Seen = 1
			_, err = framework.UpdateStatus(ctx, c, tool)
			return err
		}, `{"color":"red","size":1}`},
		{"an apply of the status", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			tool := newTool("t", 0)
			tool.Status.Seen = 1
			_, err := framework.ApplyStatus(ctx, c, tool)
			return err
		}, `{"color":"red","size":1}`},
		{"a create by another name, and its deletion with a finalizer", func(ctx context.Context, b *toolbox, c *pageContext) error {
			tool, err := b.typed.GetNamed(c, "default", "t")
			if err != nil {
				return err
			}
			held, err := framework.MergePatch(ctx, c, tool, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`))
			if err != nil {
				return err
			}
			if err := framework.Delete(ctx, c, held); err != nil {
				return err
			}
			_, err = framework.MergePatch(ctx, c, newTool("t", 0), patch)
			return err
		}, `{"color":"red","size":2}`},
		{"what other code sent", func(ctx context.Context, b *toolbox, c *pageContext) error {
			_, err := framework.Do(ctx, c, newTool("t", 0), func(ctx context.Context) (*Tool, error) {
				tool := newTool("t", 0)
				err := b.admin(c).Patch(ctx, tool, client.RawPatch(types.MergePatchType, patch))
				return tool, err
			})
			return err
		}, `{"color":"red","size":2}`},
		{"metadata only", func(ctx context.Context, b *toolbox, c *pageContext) error {
			only, err := b.metadata.GetNamed(c, "default", "t")
			if err != nil {
				return err
			}
			_, err = framework.MergePatch(ctx, c, only, patch)
			return err
		}, `{"color":"red","size":2}`},
	} {
		t.Run(way.name, func(t *testing.T) {
			var v *virtual
			shown := ""
			b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
				if run == 1 {
					v.model.Lag("tools", time.Minute)
					noError(t, way.write(ctx, b, c))
					if shown = b.shows(t, c, "t"); shown != way.want {
						t.Errorf("shown is %s, want %s", shown, way.want)
					}
					return
				}
				whole, err := b.whole.GetNamed(c, "default", "t") // each cache has a watch of its own
				noError(t, err)
				shown = specOf(whole)
			})
			inVirtualTime(t, b, b.all(), func(virtual *virtual) {
				v, admins = virtual, virtual.admin
				v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "red"}))
				v.pass(time.Second)
				v.create(newPage("default", "p"))
				v.pass(2 * time.Minute) // the echo has come
				if want := specOf(v.live("t")); shown != want {
					t.Errorf("shown is %s, the server has %s", shown, want)
				}
				before := b.runs.Load()
				v.changeTool("t", `{"spec":{"color":"blue"}}`)
				v.pass(2 * time.Minute)
				if want := specOf(v.live("t")); b.runs.Load() == before || shown != want {
					t.Errorf("%d runs saw the change; shown is %s, the server has %s", b.runs.Load()-before, shown, want)
				}
			})
		})
	}
}

// admins is whose client other code has.
var admins *client.Client

func (b *toolbox) admin(*pageContext) *client.Client { return admins }

// TestG05AWriteInAPoorerFormBringsNoRun, and takes one request.
func TestG05AWriteInAPoorerFormBringsNoRun(t *testing.T) {
	b := newToolbox(func(_ *toolbox, ctx context.Context, c *pageContext, _ int) {
		_, err := framework.Apply(ctx, c, newTool("t", 2))
		noError(t, err)
	})
	inVirtualTime(t, b, b.all(), func(v *virtual) {
		reads := 0
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "tools" && r.Verb == "get" {
				reads++
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		if b.runs.Load() != 1 || reads != 0 || len(v.writes()) != 1 {
			t.Errorf("%d runs, %d reads, want one run with one write", b.runs.Load(), reads)
		}
	})
}

// configuration is an object as an apply configuration.
type configuration struct{ *unstructured.Unstructured }

func (configuration) IsApplyConfiguration() {}

// TestAnApplyRepairsWhatTheCacheDoesNotShow: what an intent says is compared in a form that shows
// it.
func TestAnApplyRepairsWhatTheCacheDoesNotShow(t *testing.T) {
	red := func() *unstructured.Unstructured {
		return wholeTool("t", map[string]any{"size": int64(1), "color": "red"})
	}
	unstructuredly := func(ctx context.Context, c *pageContext) error {
		_, err := framework.Apply(ctx, c, red())
		return err
	}
	configured := func(ctx context.Context, c *pageContext) error {
		_, err := framework.ApplyConfiguration[*Tool](ctx, c, configuration{red()})
		return err
	}
	parts := func(ctx context.Context, c *pageContext) error {
		_, err := framework.Apply(ctx, c, newTool("t", 1, "blade"))
		return err
	}
	const whole, weight = `{"color":"red","size":1}`, `{"parts":[{"name":"blade"}],"size":1}`
	heavier := `{"spec":{"parts":[{"name":"blade","weight":7}]}}`
	for _, c := range []struct {
		name    string
		typed   bool // else the cache is of metadata, or pruned
		pruned  bool
		apply   func(context.Context, *pageContext) error
		foreign string
		want    string
	}{
		{"an unstructured intent, a typed cache", true, false, unstructuredly, `{"spec":{"color":"blue"}}`, whole},
		{"an apply configuration, a typed cache", true, false, configured, `{"spec":{"color":"blue"}}`, whole},
		{"an unstructured intent, a cache of metadata", false, false, unstructuredly, `{"spec":{"color":"blue"}}`, whole},
		{"an unstructured intent, a cache that drops the field", false, true, unstructuredly, `{"spec":{"color":"blue"}}`, whole},
		{"a list that is one field as a whole, a typed cache", true, false, parts, heavier, weight},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newToolbox(func(_ *toolbox, ctx context.Context, run *pageContext, _ int) { noError(t, c.apply(ctx, run)) })
			secondaries := framework.Secondaries(&b.metadata)
			switch {
			case c.typed:
				secondaries = framework.Secondaries(&b.typed)
			case c.pruned:
				b.whole.Transform = &framework.Transform[*unstructured.Unstructured]{Name: "no color", Prune: func(u *unstructured.Unstructured) {
					unstructured.RemoveNestedField(u.Object, "spec", "color")
				}}
				secondaries = framework.Secondaries(&b.whole)
			}
			inVirtualTime(t, b, pageOptions{Retry: slow, Secondaries: secondaries}, func(v *virtual) {
				v.create(newPage("default", "p"))
				v.pass(time.Minute)
				for range 2 {
					v.changeTool("t", c.foreign)
					v.pass(time.Minute)
					if got := specOf(v.live("t")); got != c.want {
						t.Errorf("it is %s, want %s", got, c.want)
					}
				}
				v.writes()
				before := b.runs.Load()
				v.patch(newPage("default", "p"), `{"spec":{"html":"again"}}`)
				v.pass(time.Minute)
				if sent := v.writes(); c.typed && (len(sent) > 0 || b.runs.Load() != before+1) {
					t.Errorf("at rest %d runs sent %q", b.runs.Load()-before, sent)
				}
			})
		})
	}
}

// TestATypedApplyRestsThroughChangesThatAreNoneOfItsOwn: the status, and labels and annotations of
// others, send nothing; a field that the type lacks sends one apply, for it may be within what the
// intent sets.
func TestATypedApplyRestsThroughChangesThatAreNoneOfItsOwn(t *testing.T) {
	b := newToolbox(func(_ *toolbox, ctx context.Context, c *pageContext, _ int) {
		_, err := framework.Apply(ctx, c, newTool("t", 1, "blade"))
		noError(t, err)
	})
	inVirtualTime(t, b, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&b.typed)}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.writes()
		for patch, want := range map[string]int{
			`{"metadata":{"labels":{"theirs":"1"}}}`:           0,
			`{"metadata":{"annotations":{"theirs":"1"}}}`:      0,
			`{"spec":{"color":"blue"}}`:                        1,
			`{"spec":{"parts":[{"name":"blade","weight":7}]}}`: 1,
			`{"spec":{"size":9}}`:                              1,
		} {
			before := b.runs.Load()
			v.changeTool("t", patch)
			v.pass(time.Minute)
			if sent := v.writes(); len(sent) != want || b.runs.Load() == before {
				t.Errorf("%s: %d runs sent %q, want %d", patch, b.runs.Load()-before, sent, want)
			}
		}
		before := b.runs.Load()
		noError(t, v.admin.Status().Patch(t.Context(), wholeTool("t", nil), client.RawPatch(types.MergePatchType, []byte(`{"status":{"seen":1,"worn":2}}`))))
		v.pass(time.Minute)
		if sent := v.writes(); len(sent) > 0 || b.runs.Load() == before {
			t.Errorf("the status: %d runs sent %q", b.runs.Load()-before, sent)
		}
	})
}

// TestAnApplyReturnsWholeObjectsAlsoIfNothingIsSent: in the form of the intent, whatever caches
// keep.
func TestAnApplyReturnsWholeObjectsAlsoIfNothingIsSent(t *testing.T) {
	b := newToolbox(func(_ *toolbox, ctx context.Context, c *pageContext, _ int) {
		got, err := framework.Apply(ctx, c, wholeTool("t", map[string]any{"size": int64(1), "color": "red"}))
		noError(t, err)
		if spec := specOf(got); spec != `{"color":"red","size":1,"theirs":1}` {
			t.Errorf("returned is %s", spec)
		}
	})
	inVirtualTime(t, b, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&b.typed)}, func(v *virtual) {
		v.create(wholeTool("t", map[string]any{"size": int64(1), "theirs": int64(1)}))
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.writes()
		v.patch(newPage("default", "p"), `{"spec":{"html":"again"}}`)
		v.pass(time.Minute)
		if sent := v.writes(); len(sent) > 0 || b.runs.Load() < 2 {
			t.Errorf("%d runs sent %q", b.runs.Load(), sent)
		}
	})
}

// TestAMatcherIsAskedAboutAllThatItComparesWith: of a typed cache no unstructured object is made
// up.
func TestAMatcherIsAskedAboutAllThatItComparesWith(t *testing.T) {
	asked := ""
	b := newToolbox(func(_ *toolbox, ctx context.Context, c *pageContext, _ int) {
		_, err := framework.Apply(ctx, c, wholeTool("t", map[string]any{"size": int64(1), "color": "red"}),
			framework.MatchedBy(func(live, _ *unstructured.Unstructured) bool { asked = specOf(live); return true }))
		noError(t, err)
	})
	inVirtualTime(t, b, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&b.typed)}, func(v *virtual) {
		v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "blue"}))
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		if want := `{"color":"blue","size":1}`; asked != want {
			t.Errorf("asked about %s, want %s", asked, want)
		}
		if sent := v.writes(); len(sent) > 0 {
			t.Errorf("sent %q", sent)
		}
	})
}

// TestAWriteSucceedsThoughAnotherCacheCannotHoldTheObject: that cache sets it aside, the others
// show it, and nothing is left over.
func TestAWriteSucceedsThoughAnotherCacheCannotHoldTheObject(t *testing.T) {
	for name, spec := range map[string]map[string]any{
		"a number that is none": {"size": "huge", "color": "red"},
		"a list that is none":   {"size": int64(1), "parts": "many"},
	} {
		for way, write := range map[string]func(ctx context.Context, b *toolbox, c *pageContext) error{
			"apply": func(ctx context.Context, _ *toolbox, c *pageContext) error {
				_, err := framework.Apply(ctx, c, wholeTool("t", spec))
				return err
			},
			"apply by patch": func(ctx context.Context, _ *toolbox, c *pageContext) error {
				_, err := framework.Apply(ctx, c, wholeTool("t", spec), framework.WithMode(framework.ByPatch))
				return err
			},
			"update": func(ctx context.Context, b *toolbox, c *pageContext) error {
				u, err := b.whole.GetNamed(c, "default", "t")
				if err != nil {
					return err
				}
				u.Object["spec"] = wholeTool("t", spec).DeepCopy().Object["spec"]
				_, err = framework.Update(ctx, c, u)
				return err
			},
			"another create": func(ctx context.Context, b *toolbox, c *pageContext) error {
				u, err := b.whole.GetNamed(c, "default", "t")
				if err != nil {
					return err
				}
				if err := framework.Delete(ctx, c, u); err != nil {
					return err
				}
				_, err = framework.Create(ctx, c, wholeTool("t", spec))
				return err
			},
			"then the status": func(ctx context.Context, _ *toolbox, c *pageContext) error {
				if _, err := framework.Apply(ctx, c, wholeTool("t", spec)); err != nil {
					return err
				}
				status := wholeTool("t", nil)
				status.Object["status"] = map[string]any{"seen": int64(1)}
				_, err := framework.ApplyStatus(ctx, c, status)
				return err
			},
			"what other code sent": func(ctx context.Context, b *toolbox, c *pageContext) error {
				_, err := framework.Do(ctx, c, wholeTool("t", nil), func(ctx context.Context) (*unstructured.Unstructured, error) {
					u := wholeTool("t", spec).DeepCopy()
					whole, err := u.MarshalJSON()
					if err != nil {
						return nil, err
					}
					err = b.admin(c).Patch(ctx, u, client.RawPatch(types.MergePatchType, whole))
					return u, err
				})
				return err
			},
		} {
			t.Run(way+" of "+name, func(t *testing.T) {
				var v *virtual
				b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
					if run > 1 {
						return
					}
					v.model.Lag("tools", time.Minute)
					noError(t, write(ctx, b, c))
					whole, err := b.whole.GetNamed(c, "default", "t")
					if got, want := specOf(whole), specOf(v.live("t")); err != nil || got != want {
						t.Errorf("shown is %s, want %s (%v)", got, want, err)
					}
					if tool, err := b.typed.GetNamed(c, "default", "t"); err == nil {
						t.Errorf("the typed cache shows %v", tool)
					}
					if only, err := b.metadata.GetNamed(c, "default", "t"); err != nil || only == nil || only.ResourceVersion != whole.GetResourceVersion() {
						t.Errorf("the cache of metadata shows %v, %v", only, err)
					}
				})
				inVirtualTime(t, b, b.all(), func(virtual *virtual) {
					v, admins = virtual, virtual.admin
					v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "blue"}))
					v.pass(time.Second)
					v.create(newPage("default", "p"))
					v.pass(time.Hour)
					for _, record := range records(v.op, newPage("default", "p")) {
						if record.Err != "" {
							t.Error(record.Err)
						}
					}
					v.atRest()
				})
			})
		}
	}
}

// TestAWriteWhoseOwnTypeCannotHoldTheAnswerIsCarriedOutOnce: its error says so, every other cache
// shows it, and the next run is not held up.
func TestAWriteWhoseOwnTypeCannotHoldTheAnswerIsCarriedOutOnce(t *testing.T) {
	var v *virtual
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run > 1 {
			return
		}
		v.changeTool("t", `{"spec":{"size":"huge"}}`)
		_, err := framework.MergePatch(ctx, c, newTool("t", 0), []byte(`{"metadata":{"labels":{"ours":"1"}}}`), framework.Unconditional())
		if err == nil || !strings.Contains(err.Error(), "it was carried out") {
			t.Errorf("%v", err)
		}
		whole, err := b.whole.GetNamed(c, "default", "t")
		if err != nil || whole.GetLabels()["ours"] != "1" {
			t.Errorf("shown is %v, %v", whole, err)
		}
		if tool, err := b.typed.GetNamed(c, "default", "t"); err == nil {
			t.Errorf("the typed cache shows %v", tool)
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v = virtual
		v.model.Lag("tools", time.Minute)
		v.create(wholeTool("t", map[string]any{"size": int64(1)}))
		v.pass(2 * time.Minute)
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
		if sent := v.writes(); len(sent) != 1 {
			t.Errorf("sent %q", sent)
		}
		if n := framework.Unresolved(v.op); n != 0 {
			t.Errorf("%d writes are unresolved", n)
		}
		v.changeTool("t", `{"spec":{"size":2}}`)
		v.pass(time.Hour)
		v.atRest()
	})
}

// TestADeletionIsShownAsTheWatchShowsIt: what keeps a finalizer is decoded from the answer as it is
// from an event.
func TestADeletionIsShownAsTheWatchShowsIt(t *testing.T) {
	var answered, watched *Tool
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		tool, err := b.typed.GetNamed(c, "default", "t")
		noError(t, err)
		if run > 1 {
			watched = tool
			return
		}
		noError(t, framework.Delete(ctx, c, tool))
		answered, err = b.typed.GetNamed(c, "default", "t")
		noError(t, err)
	})
	inVirtualTime(t, b, b.all(), func(v *virtual) {
		kept := wholeTool("t", map[string]any{"size": int64(1), "SIZE": int64(2)})
		kept.SetFinalizers([]string{"example.com/kept"})
		v.create(kept)
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		v.changeTool("t", `{"metadata":{"labels":{"seen":"yes"}}}`)
		v.pass(time.Second)
		if answered == nil || watched == nil || answered.DeletionTimestamp == nil || watched.Labels["seen"] != "yes" {
			t.Fatalf("the answer: %v, the watch: %v", answered, watched)
		}
		if answered.TypeMeta != watched.TypeMeta || !reflect.DeepEqual(answered.Spec, watched.Spec) {
			t.Errorf("the answer shows %v %v, the watch %v %v", answered.TypeMeta, answered.Spec, watched.TypeMeta, watched.Spec)
		}
	})
}

// TestADeletionIsASuccessThoughTheTypeCannotHoldTheAnswer: it keeps a finalizer, so it is shown as
// it ends.
func TestADeletionIsASuccessThoughTheTypeCannotHoldTheAnswer(t *testing.T) {
	var v *virtual
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run > 1 {
			return
		}
		tool, err := b.typed.GetNamed(c, "default", "t")
		noError(t, err)
		v.model.Lag("tools", time.Minute)
		v.changeTool("t", `{"spec":{"size":"huge"}}`)
		noError(t, framework.Delete(ctx, c, tool))
		whole, err := b.whole.GetNamed(c, "default", "t")
		if err != nil || whole.GetDeletionTimestamp() == nil {
			t.Errorf("shown is %v, %v", whole, err)
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v = virtual
		held := wholeTool("t", map[string]any{"size": int64(1)})
		held.SetFinalizers([]string{"example.com/held"})
		v.create(held)
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
		v.changeTool("t", `{"metadata":{"finalizers":null}}`)
		v.pass(time.Hour)
		v.atRest()
	})
}

// TestAConflictWithWhatTheTypeCannotHoldIsNoUnresolvedWrite: what the read that follows it finds is
// undecodable.
func TestAConflictWithWhatTheTypeCannotHoldIsNoUnresolvedWrite(t *testing.T) {
	var v *virtual
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run > 1 {
			return
		}
		tool, err := b.typed.GetNamed(c, "default", "t")
		noError(t, err)
		v.model.Lag("tools", time.Minute)
		v.changeTool("t", `{"spec":{"size":"huge"}}`)
		if _, err = framework.Update(ctx, c, tool); !apierrors.IsConflict(err) {
			t.Errorf("%v", err)
		}
		if whole, err := b.whole.GetNamed(c, "default", "t"); err != nil || specOf(whole) != `{"size":"huge"}` {
			t.Errorf("shown is %v, %v", whole, err)
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v = virtual
		v.create(wholeTool("t", map[string]any{"size": int64(1)}))
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		if n := framework.Unresolved(v.op); n != 0 {
			t.Errorf("%d writes are unresolved", n)
		}
		v.pass(time.Hour)
		v.atRest()
	})
}

// TestG02WhatWasReadPastTheCachesIsShownByAll: each way to read past them, in each form, while the
// watches are late.
func TestG02WhatWasReadPastTheCachesIsShownByAll(t *testing.T) {
	var v *virtual
	red, gone := `{"color":"red","size":1}`, "nothing"
	for _, way := range []struct {
		name string
		read func(ctx context.Context, b *toolbox, c *pageContext) error
	}{
		{"Live", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.Live[*Tool](ctx, c, "default", "t")
			return err
		}},
		{"Secondary.Live of a type", func(ctx context.Context, b *toolbox, c *pageContext) error {
			_, err := b.typed.Live(ctx, c, "default", "t")
			return err
		}},
		{"Secondary.Live of the whole", func(ctx context.Context, b *toolbox, c *pageContext) error {
			_, err := b.whole.Live(ctx, c, "default", "t")
			return err
		}},
		{"Secondary.Live of metadata", func(ctx context.Context, b *toolbox, c *pageContext) error {
			_, err := b.metadata.Live(ctx, c, "default", "t")
			return err
		}},
		{"LiveList of a type", func(ctx context.Context, b *toolbox, c *pageContext) error {
			return listed(b.typed.LiveList(ctx, c, framework.Selection{}))
		}},
		{"LiveList of the whole", func(ctx context.Context, b *toolbox, c *pageContext) error {
			return listed(b.whole.LiveList(ctx, c, framework.Selection{Namespace: "default"}))
		}},
		{"LiveList of metadata", func(ctx context.Context, b *toolbox, c *pageContext) error {
			return listed(b.metadata.LiveList(ctx, c, framework.Selection{}))
		}},
		{"LiveList with a selector", func(ctx context.Context, b *toolbox, c *pageContext) error {
			return listed(b.typed.LiveList(ctx, c, framework.Selection{LabelSelector: "!no"}))
		}},
		{"MigrateToApply", func(ctx context.Context, _ *toolbox, c *pageContext) error {
			_, err := framework.MigrateToApply(ctx, c, newTool("t", 0), []string{"nobody"})
			return err
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
				if run > 1 {
					return
				}
				v.model.Lag("tools", time.Minute)
				v.changeTool("t", `{"spec":{"color":"red"}}`)
				noError(t, way.read(ctx, b, c))
				if got := b.shows(t, c, "t"); got != red {
					t.Errorf("shown is %s, want %s", got, red)
				}
				noError(t, v.admin.Delete(ctx, wholeTool("t", nil)))
				if err := way.read(ctx, b, c); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
				if got := b.shows(t, c, "t"); got != gone {
					t.Errorf("shown is %s, want %s", got, gone)
				}
			})
			inVirtualTime(t, b, b.all(), func(virtual *virtual) {
				v = virtual
				v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "blue"}))
				v.pass(time.Second)
				v.create(newPage("default", "p"))
				v.pass(time.Hour)
				if b.runs.Load() < 2 {
					t.Error("the changes of others brought no run")
				}
				v.atRest()
			})
		})
	}
}

func listed[S framework.Object](all func(func(S, error) bool)) (failure error) {
	for _, err := range all {
		failure = errors.Join(failure, err)
	}
	return failure
}

// TestG02LivePrimaryIsShownByTheCacheFromThenOn.
func TestG02LivePrimaryIsShownByTheCacheFromThenOn(t *testing.T) {
	var v *virtual
	runs := 0
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		if runs++; runs > 1 {
			return pageUpdate{}, nil
		}
		v.model.Lag("webpages", time.Minute)
		v.patch(newPage("default", "p"), `{"spec":{"html":"newer"}}`)
		live, err := c.LivePrimary(ctx)
		noError(t, err)
		shown, err := c.Primaries().Get("default", "p")
		if err != nil || shown == nil || shown.ResourceVersion != live.ResourceVersion {
			t.Errorf("the cache shows %v, %v", shown, err)
		}
		live.Spec.HTML = "the author's own"
		if shown, err = c.Primaries().Get("default", "p"); err != nil || shown.Spec.HTML != "newer" {
			t.Errorf("the cache shows %v, %v", shown, err)
		}
		noError(t, v.admin.Delete(ctx, newPage("default", "p")))
		if _, err = c.LivePrimary(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("%v", err)
		}
		if shown, err = c.Primaries().Get("default", "p"); err != nil || shown != nil {
			t.Errorf("the cache shows %v, %v", shown, err)
		}
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(virtual *virtual) {
		v = virtual
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
	})
}

// TestAWriteSucceedsThoughACacheCannotReadIt: what other code sent is no JSON, and the unstructured
// cache cannot read it either. Its reads are errors until its watch brings the object.
func TestAWriteSucceedsThoughACacheCannotReadIt(t *testing.T) {
	var v *virtual
	read := ""
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run == 1 {
			v.model.Lag("tools", time.Minute)
			_, err := framework.Do(ctx, c, newTool("t", 0), func(ctx context.Context) (*Tool, error) {
				tool := newTool("t", 0)
				err := admins.Patch(ctx, tool, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"size":2}}`)))
				v.disturb(func(r apimodel.Request) apimodel.Fault {
					return apimodel.Fault{Drop: r.Resource == "tools" && r.Verb == "get"}
				})
				return tool, err
			})
			noError(t, err)
			if whole, err := b.whole.GetNamed(c, "default", "t"); err == nil || !strings.Contains(err.Error(), "could not be read since") || strings.Contains(err.Error(), "does not fit") {
				t.Errorf("shown is %v, %v", whole, err)
			}
			if tool, err := b.typed.GetNamed(c, "default", "t"); err != nil || tool.Spec.Size != 2 {
				t.Errorf("shown is %v, %v", tool, err)
			}
			v.disturb(nil)
			return
		}
		whole, err := b.whole.GetNamed(c, "default", "t")
		if read = specOf(whole); err != nil {
			read = err.Error()
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v, admins = virtual, virtual.admin
		v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "red"}))
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
		if want := `{"color":"red","size":2}`; read != want {
			t.Errorf("read is %s, want %s", read, want)
		}
		for _, record := range records(v.op, newPage("default", "p")) {
			if record.Err != "" {
				t.Error(record.Err)
			}
		}
		v.atRest()
	})
}

// TestG02WhatWasReadPastTheCachesOfAnotherClusterIsShownThere, in every form.
func TestG02WhatWasReadPastTheCachesOfAnotherClusterIsShownThere(t *testing.T) {
	overModel(t, func(m *modelled) {
		far := newModel(t)
		there, err := client.New(far.Config(), scheme)
		noError(t, err)
		noError(t, there.Create(t.Context(), wholeTool("t", map[string]any{"size": int64(1), "color": "blue"})))
		b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
			if run > 1 {
				return
			}
			far.Lag("tools", time.Minute)
			noError(t, there.Patch(ctx, wholeTool("t", nil), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"color":"red"}}`))))
			_, err := b.typed.Live(ctx, c, "default", "t")
			noError(t, err)
			if got, want := b.shows(t, c, "t"), `{"color":"red","size":1}`; got != want {
				t.Errorf("shown is %s, want %s", got, want)
			}
			_, err = framework.MergePatch(ctx, b.typed.In(c), newTool("t", 0), []byte(`{"spec":{"size":2}}`))
			noError(t, err)
			if got, want := b.shows(t, c, "t"), `{"color":"red","size":2}`; got != want {
				t.Errorf("shown is %s, want %s", got, want)
			}
		})
		config := far.Config()
		b.typed.Cluster, b.whole.Cluster, b.metadata.Cluster = config, config, config
		defer m.operate(b, b.all())()
		m.createPage("p")
		time.Sleep(time.Hour)
		if b.runs.Load() == 0 {
			t.Error("no run")
		}
	})
}

// TestG01WhoTakesOverIsNotHeldUpByWhatATypeCannotHold, and reads what the leader before wrote in
// every form.
func TestG01WhoTakesOverIsNotHeldUpByWhatATypeCannotHold(t *testing.T) {
	withReplicas(t, func(r *replicas) {
		r.create(wholeTool("t", map[string]any{"size": int64(1), "color": "red"}))
		r.create(wholeTool("unfit", map[string]any{"size": "huge"}))
		instance := func(name string, work func(b *toolbox, ctx context.Context, c *pageContext, run int)) *replica {
			b := newToolbox(work)
			return r.startWith(name, b, b.all())
		}
		a := instance("a", func(_ *toolbox, ctx context.Context, c *pageContext, _ int) {
			_, err := framework.MergePatch(ctx, c, newTool("t", 0), []byte(`{"spec":{"size":2}}`))
			noError(t, err)
			_, err = framework.MergePatch(ctx, c, wholeTool("unfit", nil), []byte(`{"spec":{"size":"huger"}}`))
			noError(t, err)
		})
		runs := 0
		b := instance("b", func(b *toolbox, _ context.Context, c *pageContext, _ int) {
			if runs++; runs > 1 {
				return
			}
			if got, want := b.shows(t, c, "t"), `{"color":"red","size":2}`; got != want {
				t.Errorf("shown is %s, want %s", got, want)
			}
			if whole, err := b.whole.GetNamed(c, "default", "unfit"); err != nil || specOf(whole) != `{"size":"huger"}` {
				t.Errorf("shown is %v, %v", whole, err)
			}
		})
		r.model.Lag("tools", time.Hour)
		r.create(newPage("default", "p"))
		r.pass(time.Second)
		noError(r.T, a.stop())
		r.pass(5 * time.Second) // less than the time that catching up may take
		r.lead("b", b)
		noError(r.T, b.stop())
		if runs == 0 {
			t.Error("b had no run")
		}
	})
}

// reconcilerOf is a reconciler of one function.
type reconcilerOf[P framework.Object] func(ctx context.Context, primary P, c *framework.Context[P]) (framework.UpdateControl[P], error)

func (f reconcilerOf[P]) Reconcile(ctx context.Context, primary P, c *framework.Context[P]) (framework.UpdateControl[P], error) {
	return f(ctx, primary, c)
}

// TestG01APrimaryThatAControllerWritesIsShownWholeToAnother: its finalizer and its status are
// written in the poorer form.
func TestG01APrimaryThatAControllerWritesIsShownWholeToAnother(t *testing.T) {
	var v *virtual
	shown := map[string]string{}
	typed := reconcilerOf[*Tool](func(_ context.Context, tool *Tool, _ *framework.Context[*Tool]) (framework.UpdateControl[*Tool], error) {
		tool.Status.Seen = tool.Spec.Size
		return framework.PatchStatus(tool), nil
	})
	whole := reconcilerOf[*unstructured.Unstructured](func(_ context.Context, tool *unstructured.Unstructured, _ *framework.Context[*unstructured.Unstructured]) (framework.UpdateControl[*unstructured.Unstructured], error) {
		shown[tool.GetResourceVersion()] = specOf(tool)
		return framework.NoUpdate[*unstructured.Unstructured](), nil
	})
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
		return errors.Join(
			framework.Register(op, typed, framework.ControllerOptions[*Tool]{Name: "typed", Finalizer: "example.com/typed"}),
			framework.Register(op, whole, framework.ControllerOptions[*unstructured.Unstructured]{Name: "whole", GroupVersionKind: toolKind}))
	}, func(virtual *virtual) {
		v = virtual
		v.create(wholeTool("t", map[string]any{"size": int64(1), "color": "red"}))
		v.pass(time.Minute)
		v.changeTool("t", `{"spec":{"color":"blue"}}`)
		v.pass(time.Minute)
		for version, spec := range shown {
			if spec != `{"color":"red","size":1}` && spec != `{"color":"blue","size":1}` {
				t.Errorf("at %s it is %s, which it never was", version, spec)
			}
		}
		if live := v.live("t"); shown[live.GetResourceVersion()] != specOf(live) {
			t.Errorf("the last was not seen: %v", shown)
		}
	})
}

// TestG02WhatALiveListNoLongerSelectsIsReadAndNotTakenForGone: its label was changed while the
// watch is late.
func TestG02WhatALiveListNoLongerSelectsIsReadAndNotTakenForGone(t *testing.T) {
	var v *virtual
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run > 1 {
			return
		}
		v.model.Lag("tools", time.Minute)
		v.changeTool("t", `{"metadata":{"labels":{"kept":"no"}}}`)
		noError(t, listed(b.typed.LiveList(ctx, c, framework.Selection{LabelSelector: "kept=yes"})))
		b.shows(t, c, "t")
		if tool, err := b.typed.GetNamed(c, "default", "t"); err != nil || tool == nil || tool.Labels["kept"] != "no" {
			t.Errorf("shown is %v, %v", tool, err)
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v = virtual
		kept := wholeTool("t", map[string]any{"size": int64(1)})
		kept.SetLabels(map[string]string{"kept": "yes"})
		v.create(kept)
		v.pass(time.Second)
		v.create(newPage("default", "p"))
		v.pass(time.Hour)
		if b.runs.Load() < 2 {
			t.Error("the change brought no run")
		}
	})
}

// touchy is a tool whose decoder panics.
type touchy struct{ Tool }

func (*touchy) UnmarshalJSON([]byte) error { panic("touchy") }

// TestAnAnswerThatADecoderPanicsAtIsUndecodable, and no panic of who writes.
func TestAnAnswerThatADecoderPanicsAtIsUndecodable(t *testing.T) {
	u := wholeTool("t", map[string]any{"size": int64(1)})
	u.SetUID("u1")
	u.SetResourceVersion("7")
	got := framework.AnswerAs(u, toolKind, &touchy{})
	undecoded, ok := got.(*trc.Undecodable)
	if !ok || !strings.Contains(undecoded.Err.Error(), "touchy") {
		t.Fatalf("%v", got)
	}
	if undecoded.GetName() != "t" || undecoded.GetUID() != "u1" || undecoded.GetResourceVersion() != "7" {
		t.Errorf("%v", undecoded.Object)
	}
}
