package frameworktest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// labelled is a note that is told from what Kubernetes puts into each namespace.
var labelled = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note", Labels: map[string]string{"note": "yes"}}}

type noting func(ctx context.Context, o *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error)

func (f noting) Reconcile(ctx context.Context, o *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	return f(ctx, o, c)
}

// noted is a story of a note that changes. Whenever it says that its item was made, there must be
// one.
func noted(f func(items *frameworktest.External) noting) frameworktest.Scenario {
	return frameworktest.Scenario{
		Cluster: frameworktest.Bare, Points: []frameworktest.Point{},
		RegisterWith: func(op *framework.Operator, p *frameworktest.Process) error {
			return framework.Register(op, f(p.External("items")), framework.ControllerOptions[*corev1.ConfigMap]{LabelSelector: "note=yes"})
		},
		Story: func(w *frameworktest.World) {
			w.Create(labelled)
			w.Rest()
			w.Merge(labelled, `{"data":{"text":"hi"}}`)
			w.Rest()
		},
		Always: func(v frameworktest.Version) error {
			for _, o := range frameworktest.Objects[*corev1.ConfigMap](v) {
				if n := len(frameworktest.Items(v, "items")); o.Labels["made"] != "" && n != 1 {
					return fmt.Errorf("it says that one item was made, there are %d", n)
				}
			}
			return nil
		},
	}
}

func mark(o *corev1.ConfigMap) (framework.UpdateControl[*corev1.ConfigMap], error) {
	o.Labels = map[string]string{"note": "yes", "made": "yes"}
	return framework.PatchResource(o), nil
}

// tooEarly says that it made the item, and makes it in the next run.
func tooEarly(items *frameworktest.External) noting {
	return func(ctx context.Context, o *corev1.ConfigMap, _ *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
		if o.Labels["made"] == "" {
			return mark(o)
		}
		found, err := items.List(ctx, "")
		if err == nil && len(found) == 0 {
			_, err = items.Create(ctx, o.Name, "")
		}
		return framework.NoUpdate[*corev1.ConfigMap](), err
	}
}

// replaces makes a new item when the text changes: for a moment there is none, which no version
// shows.
func replaces(items *frameworktest.External) noting {
	return func(ctx context.Context, o *corev1.ConfigMap, _ *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
		found, err := items.List(ctx, "")
		if err != nil || len(found) > 0 && found[0].Value == o.Data["text"] {
			return framework.NoUpdate[*corev1.ConfigMap](), err
		}
		for _, old := range found {
			err = errors.Join(err, items.Delete(ctx, old.ID))
		}
		if _, failed := items.Create(ctx, o.Name, o.Data["text"]); failed != nil || err != nil {
			return framework.NoUpdate[*corev1.ConfigMap](), errors.Join(err, failed)
		}
		return mark(o)
	}
}

// keepsItsItem keeps its item.
func keepsItsItem(items *frameworktest.External) noting {
	return func(ctx context.Context, o *corev1.ConfigMap, _ *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
		found, err := items.List(ctx, "")
		switch {
		case err != nil:
		case len(found) == 0:
			_, err = items.Create(ctx, o.Name, o.Data["text"])
		case found[0].Value != o.Data["text"]:
			err = items.Update(ctx, found[0].ID, o.Data["text"])
		}
		if err != nil || o.Labels["made"] != "" {
			return framework.NoUpdate[*corev1.ConfigMap](), err
		}
		return mark(o)
	}
}

var outsideCases = []struct {
	name string
	does func(items *frameworktest.External) noting
	says string // empty: it passes
}{
	{"too early", tooEarly, "by operator (0s): it says that one item was made, there are 0"},
	{"replaces", replaces, "by user, and then a change of items ("},
	{"keeps its item", keepsItsItem, ""},
}

func TestAlwaysSeesWhatIsOutside(t *testing.T) {
	for _, r := range outsideCases {
		found := noted(r.does).Explore(t).Findings()
		if (len(found) > 0) != (r.says != "") || len(found) > 0 && !strings.Contains(strings.Join(found[0].Failures, "\n"), r.says) {
			t.Errorf("%s: %q, want %q", r.name, found, r.says)
		}
	}
}

// alwaysSeesOnServer the same, in the same order, though watches are behind.
func alwaysSeesOnServer(t *testing.T) {
	for _, r := range outsideCases {
		found := frameworktest.ExploreOnServer(t, noted(r.does)).Findings()
		if (len(found) > 0) != (r.says != "") || len(found) > 0 && !strings.Contains(strings.Join(found[0].Failures, "\n"), "there are 0") {
			t.Errorf("%s: %q on a server", r.name, found)
		}
	}
}

func TestMaskItemDropsWhatMayDiffer(t *testing.T) {
	s := noted(func(items *frameworktest.External) noting {
		return func(ctx context.Context, o *corev1.ConfigMap, _ *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
			found, err := items.List(ctx, "")
			if err != nil || len(found) > 0 {
				return framework.NoUpdate[*corev1.ConfigMap](), err
			}
			_, err = items.Create(ctx, o.Name, fmt.Sprint("password ", rand.Uint64()))
			return framework.NoUpdate[*corev1.ConfigMap](), err
		}
	})
	s.Points = []frameworktest.Point{frameworktest.CrashBefore}
	if found := s.Explore(t).Findings(); len(found) != 1 || !strings.Contains(found[0].Failures[0], "password") {
		t.Errorf("a random password: %q", found)
	}
	s.MaskItem = func(system string, item *frameworktest.Item) {
		if system == "items" {
			item.Value = ""
		}
	}
	if found := s.Explore(t).Findings(); len(found) > 0 {
		t.Errorf("a random password that is masked: %q", found)
	}
}

// TestOtherNamespacesAreCompared too: what an operator does there is its own.
func TestOtherNamespacesAreCompared(t *testing.T) {
	s := noted(func(*frameworktest.External) noting {
		return func(ctx context.Context, o *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
			if o.Labels["made"] != "" {
				return framework.NoUpdate[*corev1.ConfigMap](), nil
			}
			there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", GenerateName: "made-"}}
			if _, err := framework.Create(ctx, c, there); err != nil {
				return framework.NoUpdate[*corev1.ConfigMap](), err
			}
			return mark(o)
		}
	})
	story := s.Story
	s.Story = func(w *frameworktest.World) {
		w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		story(w)
	}
	var most atomic.Int32
	s.Always = func(v frameworktest.Version) error {
		if n := int32(len(frameworktest.Objects[*corev1.Secret](v))); n > most.Load() {
			most.Store(n)
		}
		return nil
	}
	s.Points = []frameworktest.Point{frameworktest.CrashCommitted}
	found := s.Explore(t).Findings()
	if len(found) != 1 || !strings.Contains(found[0].Failures[0], "+ secrets elsewhere/made-*") || most.Load() != 2 {
		t.Errorf("%q, and Always saw %d", found, most.Load())
	}
}
