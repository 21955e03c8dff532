package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/timeline"
)

// as changes an object as another field manager.
func (v *virtual) as(manager string, o client.Object, patch string) {
	v.t.Helper()
	merge := client.RawPatch("application/merge-patch+json", []byte(patch))
	noError(v.t, v.admin.Patch(v.t.Context(), o, merge, client.FieldOwner(manager)))
}

// fights returns the fights of all records, and their runs.
func (v *virtual) fights(controller string) (all []timeline.Fight) {
	for _, r := range v.op.Records(controller) {
		all = append(all, r.Fights...)
	}
	return all
}

func (v *virtual) loops(controller string) (all []timeline.Chain) {
	for _, r := range v.op.Records(controller) {
		if r.Loop != nil {
			all = append(all, *r.Loop)
		}
	}
	return all
}

// told returns the events of a reason.
func (v *virtual) told(reason string) (all []string) {
	for event := range v.events() {
		if strings.Contains(event, " "+reason+" ") {
			all = append(all, event)
		}
	}
	slices.Sort(all)
	return all
}

// applies is a reconciler that keeps a ConfigMap and the status as the spec says.
func applies() *pages {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		m := configMapOf(p, p.Spec.HTML)
		m.Labels = map[string]string{"example.com/page": p.Name}
		if _, err := framework.Apply(ctx, c, m, framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		p.Status.URL = "/" + p.Name
		return framework.PatchStatus(p), nil
	}
	return r
}

func TestAFightIsNamedWithBothManagersAndThePath(t *testing.T) {
	data := func(v *virtual, i int) {
		v.as("rival", configMapOf(v.page("p"), ""), fmt.Sprintf(`{"data":{"data":"%d"}}`, i))
	}
	for name, c := range map[string]struct {
		rival  func(v *virtual, i int)
		fields string
		object string
	}{
		"data": {data, "data.data", "ConfigMap default/p"},
		"a label": {func(v *virtual, i int) {
			v.as("rival", configMapOf(v.page("p"), ""), fmt.Sprintf(`{"metadata":{"labels":{"example.com/page":"x%d"}}}`, i))
		}, "metadata.labels[example.com/page]", "ConfigMap default/p"},
		"both, among other changes": {func(v *virtual, i int) {
			v.as("rival", configMapOf(v.page("p"), ""), fmt.Sprintf(`{"data":{"data":"%d","other":"%d"},"metadata":{"labels":{"example.com/page":"x"}}}`, i, i))
		}, "data.data, metadata.labels[example.com/page]", "ConfigMap default/p"},
	} {
		t.Run(name, func(t *testing.T) {
			r := applies()
			inVirtualTimeWith(t, framework.OperatorOptions{}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Minute)
				for i := range 2 {
					c.rival(v, i)
					v.pass(time.Minute)
				}
				if fights := v.fights("webpage"); len(fights) > 0 {
					t.Errorf("after two changes: %v", fights)
				}
				for i := range 4 {
					c.rival(v, i)
					v.pass(time.Minute)
				}
				fights := v.fights("webpage")
				if len(fights) < 4 {
					t.Fatalf("%d fights: %v", len(fights), fights)
				}
				for i, f := range fights {
					if text := f.String(); f.Fields != c.fields || f.Manager != "webpage" || f.Times < 3 || !strings.Contains(text, "rival and webpage keep changing ") || !strings.Contains(text, c.object) {
						t.Errorf("%d: %v (%+v)", i, f, f)
					}
				}
				if told := v.told(framework.ReasonFight); len(told) != 1 || !strings.Contains(told[0], c.fields) {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

func TestAFightWithSomebodyFastIsSlowed(t *testing.T) {
	r := applies()
	inVirtualTimeWith(t, framework.OperatorOptions{}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		before := len(v.op.Records("webpage"))
		for i := range 600 { // in 30 s
			v.as("rival", configMapOf(newPage("default", "p"), ""), fmt.Sprintf(`{"data":{"data":"%d"}}`, i))
			v.pass(50 * time.Millisecond)
		}
		if n := len(v.op.Records("webpage")) - before; n < 20 || n > 45 {
			t.Errorf("%d runs in 30 s, want about one a second", n)
		}
	})
}

func TestAFightAboutTheStatusIsNamed(t *testing.T) {
	r := applies()
	inVirtualTimeWith(t, framework.OperatorOptions{}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		for i := range 5 {
			merge := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"html":"%d"},"status":{"url":"%d"}}`, i, i))
			noError(t, v.admin.Status().Patch(t.Context(), newPage("default", "p"), merge, client.FieldOwner("rival")))
			noError(t, v.admin.Patch(t.Context(), newPage("default", "p"), merge, client.FieldOwner("user")))
			v.pass(time.Minute)
		}
		fights := v.fights("webpage")
		if len(fights) < 3 || fights[0].Kind != "WebPage" || fights[0].Fields != "status.url" || fights[0].Other != "user" {
			t.Errorf("fights are %v", fights)
		}
	})
}

// Two primaries that write one object are the usual way to begin one.
func TestAFightOfTwoPrimariesOfAnOperatorIsNamed(t *testing.T) {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		m := configMapOf(p, p.Spec.HTML)
		m.Name = "shared"
		_, err := framework.Apply(ctx, c, m)
		return pageUpdate{}, err
	}
	r.configMaps.Map = func(*corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: "p"}, {Namespace: "default", Name: "q"}}
	}
	inVirtualTimeWith(t, framework.OperatorOptions{}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
		v.createPage("p", "a")
		v.createPage("q", "b")
		v.pass(time.Minute)
		runs := len(v.op.Records("webpage"))
		if runs > 200 {
			t.Errorf("%d runs in a minute: they are not slowed", runs)
		}
		fights := v.fights("webpage")
		if len(fights) == 0 {
			t.Fatalf("no fight in %d runs", runs)
		}
		if f := fights[0]; f.Fields != "data.data" || !strings.Contains(f.Rival, "controller webpage for default/") {
			t.Errorf("%+v", f)
		}
	})
}

// oneRun is how long a run takes in a loop. In virtual time it would take none, and end before the
// write that has caused it is answered: the watch may be faster than that.
const oneRun = time.Millisecond

// counts are two controllers, of which each writes what makes the other one due.
func counts(name, writes, reads string) (*pages, pageOptions) {
	n, r := 0, &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		n++
		time.Sleep(oneRun)
		m := configMapOf(p, fmt.Sprint(n))
		m.Name = writes
		_, err := framework.Apply(ctx, c, m)
		return pageUpdate{}, err
	}
	r.configMaps.Map = func(m *corev1.ConfigMap) (keys []types.NamespacedName) {
		if m.Name == reads {
			keys = append(keys, types.NamespacedName{Namespace: "default", Name: "p"})
		}
		return keys
	}
	return r, withConfigMaps(r, pageOptions{Name: name, FieldManager: name, KeepRecords: 1000})
}

func TestALoopOfTwoControllersIsNamedAndSlowed(t *testing.T) {
	a, ofA := counts("ping", "a", "b")
	b, ofB := counts("pong", "b", "a")
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
		if err := framework.Register(op, a, ofA); err != nil {
			return err
		}
		return framework.Register(op, b, ofB)
	}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(10 * time.Minute)
		for _, name := range []string{"ping", "pong"} {
			if n := len(v.op.Records(name)); n > 620 || n < 300 {
				t.Errorf("%s has %d runs in ten minutes, want about one a second", name, n)
			}
			loops := v.loops(name)
			if len(loops) == 0 || !slices.Equal(loops[len(loops)-1].Controllers, []string{"ping", "pong"}) {
				t.Errorf("%s: %d loops, the first %v", name, len(loops), loops[:min(len(loops), 1)])
			}
		}
		if told := v.told(framework.ReasonLoop); len(told) == 0 {
			t.Error("nobody is told")
		}
		if fights := append(v.fights("ping"), v.fights("pong")...); len(fights) > 0 {
			t.Errorf("they do not fight: %v", fights)
		}
	})
}

func TestWhatUsersDoOftenIsNeitherFightNorLoop(t *testing.T) {
	for name, step := range map[string]func(v *virtual, i int){
		"toggle the spec": func(v *virtual, i int) {
			v.as("user", newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i%2))
		},
		"touch other fields": func(v *virtual, i int) {
			v.as("user", configMapOf(v.page("p"), ""), fmt.Sprintf(`{"data":{"other":"%d"}}`, i%2))
			v.as("user", newPage("default", "p"), fmt.Sprintf(`{"metadata":{"labels":{"x":"%d"}}}`, i%2))
		},
		"change each field twice": func(v *virtual, i int) {
			if i < 4 {
				v.as("user", configMapOf(v.page("p"), ""), []string{`{"data":{"data":"x"}}`, `{"metadata":{"labels":{"example.com/page":"x"}}}`}[i%2])
			}
		},
		"seldom": func(v *virtual, i int) {
			v.as("user", configMapOf(v.page("p"), ""), `{"data":{"data":"x"}}`)
			v.pass(5 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := applies()
			chained, ofChained := counts("chained", "c", "p")
			inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
				if err := framework.Register(op, r, withConfigMaps(r, pageOptions{KeepRecords: 1000})); err != nil {
					return err
				}
				return framework.Register(op, chained, ofChained)
			}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Minute)
				for i := range 20 {
					step(v, i)
					v.pass(20 * time.Second)
				}
				if len(v.op.Records("webpage")) < 4 || len(v.op.Records("chained")) < 4 {
					t.Error("nothing has happened")
				}
				for _, name := range []string{"webpage", "chained"} {
					if fights, loops := v.fights(name), v.loops(name); len(fights)+len(loops) > 0 {
						t.Errorf("%s: fights %v, loops %v", name, fights, loops)
					}
				}
			})
		})
	}
}

// shownAs returns the ConfigMap of a name that a run sees, nil if there is none.
func shownAs(c *pageContext, in *framework.Secondary[*corev1.ConfigMap], name string) *corev1.ConfigMap {
	all, _ := in.List(c)
	for _, m := range all {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// One controller creates what the other one deletes: nothing else happens.
func TestALoopOfCreatingAndDeletingIsNamedAndSlowed(t *testing.T) {
	mapped := func(*corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: "p"}}
	}
	makes, deletes := &pages{}, &pages{}
	makes.configMaps.Map, deletes.configMaps.Map = mapped, mapped
	makes.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		time.Sleep(oneRun)
		_, err := framework.Apply(ctx, c, configMapOf(p, "a"))
		return pageUpdate{}, err
	}
	runs := 0
	deletes.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		time.Sleep(oneRun)
		if runs++; runs > 2000 {
			return pageUpdate{}, nil // otherwise virtual time may stand still
		}
		if m := shownAs(c, &deletes.configMaps, p.Name); m != nil {
			return pageUpdate{}, framework.Delete(ctx, c, m)
		}
		return pageUpdate{}, nil
	}
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
		if err := framework.Register(op, makes, withConfigMaps(makes, pageOptions{Name: "makes", FieldManager: "makes", KeepRecords: 3000})); err != nil {
			return err
		}
		return framework.Register(op, deletes, withConfigMaps(deletes, pageOptions{Name: "deletes", FieldManager: "deletes", KeepRecords: 3000}))
	}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(10 * time.Minute)
		loops := append(v.loops("makes"), v.loops("deletes")...)
		if n := len(v.op.Records("makes")); n > 620 || len(loops) == 0 {
			t.Errorf("%d runs in ten minutes, %d loops are named", n, len(loops))
		}
	})
}

// A write that was carried out though its answer says otherwise, or was lost, is the writer's own:
// it does not fight itself.
func TestAWriterWhoseAnswersAreLostDoesNotFightItself(t *testing.T) {
	for name, fault := range map[string]apimodel.Fault{
		"lost":           {Lose: true},
		"internal error": {Done: true, Answer: &metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "out of order"}},
		"unavailable":    {Done: true, Answer: &metav1.Status{Status: metav1.StatusFailure, Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "out of order"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := applies()
			inVirtualTimeWith(t, framework.OperatorOptions{}, r, withConfigMaps(r, pageOptions{}), func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Minute)
				var faults atomic.Int32
				v.disturb(func(q apimodel.Request) apimodel.Fault {
					if q.Resource == "configmaps" && q.Verb != "list" && q.Verb != "watch" && faults.Add(-1) >= 0 {
						return fault
					}
					return apimodel.Fault{}
				})
				for i := range 60 {
					// The answers to every second text are lost.
					faults.Store(int32(i % 2))
					v.as("user", newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i%2))
					v.pass(5 * time.Second)
					v.as("user", configMapOf(v.page("p"), ""), fmt.Sprintf(`{"data":{"other":"%d"}}`, i))
					v.pass(5 * time.Second)
				}
				if fights := v.fights("webpage"); len(fights) > 0 {
					t.Errorf("%d fights, the first: %v", len(fights), fights[0])
				}
			})
		})
	}
}
