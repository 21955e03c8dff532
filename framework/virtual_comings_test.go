package framework_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// visitors are the runs of one controller, which read the ConfigMap of their page's name while that
// wants it. What they take for true at last is all that counts.
type visitors struct {
	pages
	t *testing.T

	mu   sync.Mutex // guards below
	rand *rand.Rand
	calm bool
	saw  map[string]string // the last run of a page that succeeded: what it wanted, and the data
}

func newVisitors(t *testing.T, random *rand.Rand) *visitors {
	r := &visitors{t: t, rand: random, saw: map[string]string{}}
	r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Name}}
	}
	r.reconcile = r.visit
	return r
}

// wants tells whether a page wants its ConfigMap.
func wants(page *Page) bool { return strings.HasSuffix(page.Spec.HTML, "with") }

func (r *visitors) visit(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	r.mu.Lock()
	takes := time.Duration(0)
	if !r.calm {
		takes = time.Duration(r.rand.Int64N(int64(2 * time.Second)))
	}
	r.mu.Unlock()
	line := page.Spec.HTML
	if !wants(page) {
		if err := c.RemoveSource("configmap"); err != nil {
			return pageUpdate{}, err
		}
	} else {
		if err := c.AddSecondary(&r.configMaps); err != nil {
			return pageUpdate{}, err
		}
		for range 2 { // what was read once is there
			found, err := r.configMaps.List(c)
			if err != nil {
				return pageUpdate{}, err
			}
			data := "none"
			if len(found) > 0 {
				data = found[0].Data["data"]
			}
			if data == "none" && page.Name == "p0" && ctx.Err() == nil {
				r.t.Errorf("%s: a run that goes on sees no ConfigMap, and it was always there", c.Key())
			}
			line = page.Spec.HTML + " " + data
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return pageUpdate{}, ctx.Err()
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw[c.Key().String()] = line
	return pageUpdate{}, nil
}

var namespaceSets = [][]string{{"default"}, {"other"}, {"default", "other"}, {framework.AllNamespaces}}

// happen does something at random to what there is, or to who watches it.
func (r *visitors) happen(v *virtual, step int) {
	r.mu.Lock()
	what, ns, name, with := r.rand.IntN(13), []string{"default", "other"}[r.rand.IntN(2)], fmt.Sprint("p", r.rand.IntN(3)), []string{"with", "without"}[r.rand.IntN(2)]
	set := namespaceSets[r.rand.IntN(4)]
	r.mu.Unlock()
	ignore := func(err error) {
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			v.t.Fatal(err)
		}
	}
	page := newPage(ns, name)
	page.Spec.HTML = fmt.Sprint(step, " ", with)
	switch what {
	case 0, 1:
		if err := v.admin.Create(v.t.Context(), page); apierrors.IsAlreadyExists(err) {
			v.patch(newPage(ns, name), fmt.Sprintf(`{"spec":{"html":"%s"}}`, page.Spec.HTML))
		} else {
			ignore(err)
		}
	case 2:
		ignore(v.admin.Delete(v.t.Context(), page))
	case 3, 4, 5:
		if err := v.admin.Create(v.t.Context(), configMapOf(page, fmt.Sprint(step))); apierrors.IsAlreadyExists(err) {
			v.patch(configMapOf(page, ""), fmt.Sprintf(`{"data":{"data":"%d"}}`, step))
		}
	case 6:
		if name != "p0" {
			ignore(v.admin.Delete(v.t.Context(), configMapOf(page, "")))
		}
	case 7:
		noError(v.t, v.op.SetNamespaces(set))
	case 8:
		noError(v.t, v.op.SetControllerNamespaces("own", set))
	case 9:
		v.model.Expire([]string{"configmaps", "webpages"}[step%2])
	case 10:
		v.disturb(func(q apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Lose: q.Number%7 == 0, Drop: q.Number%11 == 0, Delay: time.Duration(q.Number%5) * 500 * time.Millisecond}
		})
	case 11: // from outside
		noError(v.t, v.op.AddSecondary("own", &r.configMaps))
	case 12:
		noError(v.t, v.op.RemoveSource("own", "configmap"))
	}
}

// expect compares what the last runs saw with what there is, in some namespaces.
func (r *visitors) expect(v *virtual, who string, namespaces ...string) {
	v.t.Helper()
	data := map[string]string{}
	for _, m := range v.model.Objects("configmaps") {
		data[m.GetNamespace()+"/"+m.GetName()] = m.Object["data"].(map[string]any)["data"].(string)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, page := range v.model.Objects("webpages") {
		key, want := page.GetNamespace()+"/"+page.GetName(), page.Object["spec"].(map[string]any)["html"].(string)
		if !slices.Contains(namespaces, page.GetNamespace()) {
			continue
		}
		if strings.HasSuffix(want, "with") {
			now, there := data[key]
			if !there {
				now = "none"
			}
			want += " " + now
		}
		if r.saw[key] != want {
			v.t.Errorf("%s: %s: the last run saw %q, and it is %q", who, key, r.saw[key], want)
		}
	}
}

func (r *visitors) calmDown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = true
}

// TestG04G16WhatComesAndGoesLosesNothingAndLeavesNothing: sources that runs add and remove, and the
// namespaces of two controllers, one of which has its own, under load.
func TestG04G16WhatComesAndGoesLosesNothingAndLeavesNothing(t *testing.T) {
	for seed := range depth.Of(uint64(8), 30, 300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			own, follower := newVisitors(t, random), newVisitors(t, rand.New(rand.NewPCG(seed, 2)))
			options := pageOptions{
				MaxInterval: scheduler.NoMaxInterval, Concurrency: 2, Retry: retry.Policy{Initial: time.Second, Max: 5 * time.Second},
				AllEvents: seed%2 == 0,
			}
			register := func(op *framework.Operator) error {
				ownOptions, followerOptions := options, options
				ownOptions.Name, ownOptions.Namespaces, followerOptions.Name = "own", []string{"default"}, "follower"
				noError(t, framework.Register(op, own, ownOptions))
				return framework.Register(op, follower, followerOptions)
			}
			inVirtualTimeOf(t, framework.OperatorOptions{}, register, func(v *virtual) {
				for _, ns := range []string{"default", "other"} {
					v.create(configMapOf(newPage(ns, "p0"), "first"))
				}
				v.pass(time.Minute)
				goroutines := bubbled()
				for step := range 80 {
					own.happen(v, step)
					own.mu.Lock()
					wait := time.Duration(random.Int64N(int64(3 * time.Second)))
					own.mu.Unlock()
					v.pass(wait)
				}
				v.disturb(nil)
				own.calmDown()
				follower.calmDown()
				noError(t, v.op.SetNamespaces([]string{"default", "other"}))
				noError(t, v.op.SetControllerNamespaces("own", []string{"other"}))
				v.pass(30 * time.Minute)
				own.expect(v, "own", "other")
				follower.expect(v, "follower", "default", "other")
				noError(t, v.op.Ready())
				noError(t, v.op.SetControllerNamespaces("own", []string{"default"}))
				noError(t, v.op.SetNamespaces(nil))
				noError(t, v.op.RemoveSource("own", "configmap"))
				v.pass(30 * time.Minute)
				for _, page := range v.model.Objects("webpages") {
					if seed%3 == 0 {
						noError(t, v.admin.Delete(t.Context(), newPage(page.GetNamespace(), page.GetName())))
					} else {
						v.patch(newPage(page.GetNamespace(), page.GetName()), `{"spec":{"html":"without"}}`)
					}
				}
				v.pass(30 * time.Minute)
				v.holdsNothing(2, goroutines)
				v.atRest()
			})
		})
	}
}

// TestC98ChangeNamespaceITOfOneController: what it names itself changes for it alone.
func TestC98ChangeNamespaceITOfOneController(t *testing.T) {
	own, follower := newAdding(), newAdding()
	register := func(op *framework.Operator) error {
		noError(t, framework.Register(op, own, pageOptions{Name: "own", Namespaces: []string{"default"}, KeepRecords: 100}))
		return framework.Register(op, follower, pageOptions{Name: "follower", KeepRecords: 100})
	}
	inVirtualTimeOf(t, framework.OperatorOptions{Namespaces: []string{"default"}}, register, func(v *virtual) {
		v.createPage("p", "a")
		v.create(newPage("other", "q"))
		v.pass(time.Minute)
		own.expect(t, "nothing yet", "0")
		follower.expect(t, "nothing yet", "0")
		for _, step := range []struct {
			namespaces []string
			saw        []string
			keys       int
		}{
			{[]string{"default", "other"}, []string{"0"}, 2},
			{[]string{"other"}, nil, 1},
			{[]string{"default"}, []string{"nothing yet", "0"}, 1}, // nobody in it had held what was added
			{[]string{framework.AllNamespaces}, []string{"nothing yet", "0", "0"}, 2},
		} {
			noError(t, v.op.SetControllerNamespaces("own", step.namespaces))
			v.pass(time.Minute)
			if n := framework.PendingKeys(v.op, "own"); n != step.keys {
				t.Errorf("%q: %d primaries, want %d", step.namespaces, n, step.keys)
			}
			_ = step.saw
			noError(t, v.op.Ready())
		}
		own.mu.Lock()
		own.saw = nil
		own.mu.Unlock()
		v.patch(newPage("other", "q"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		own.expect(t, "0")
		follower.expect(t)
		expectError(t, v.op.SetControllerNamespaces("follower", []string{"other"}), `"follower"`, "ControllerOptions.Namespaces")
		expectError(t, v.op.SetControllerNamespaces("nobody", []string{"other"}), `"nobody"`)
		expectError(t, v.op.SetControllerNamespaces("own", nil), `"own"`, "AllNamespaces")
		expectError(t, v.op.SetControllerNamespaces("own", []string{"UPPER"}), `"UPPER"`)
	})
}

// TestC98G16ACacheThatTwoControllersReadGoesWithTheSecond: one that follows the same namespaces is
// one.
func TestC98G16ACacheThatTwoControllersReadGoesWithTheSecond(t *testing.T) {
	one, two := newAdding(), newAdding()
	register := func(op *framework.Operator) error {
		noError(t, framework.Register(op, one, pageOptions{Name: "one", LabelSelector: "one"}))
		return framework.Register(op, two, pageOptions{Name: "two", LabelSelector: "two"})
	}
	inVirtualTimeOf(t, framework.OperatorOptions{}, register, func(v *virtual) {
		v.pass(time.Minute)
		goroutines := bubbled()
		for _, name := range []string{"one", "two"} {
			page := newPage("default", name)
			page.Labels = map[string]string{name: ""}
			v.create(page)
		}
		v.pass(time.Minute)
		one.expect(t, "nothing yet", "0")
		two.expect(t, "nothing yet", "0")
		if now := v.op.Occupancy(); now.DynamicSources != 2 || len(now.Caches) != 3 {
			t.Errorf("%d sources, %d caches, want 2 that share one beside those of pages", now.DynamicSources, len(now.Caches))
		}
		v.delete("one")
		v.pass(time.Minute)
		m := configMapOf(newPage("default", "m"), "x")
		page := v.page("two")
		m.OwnerReferences = ownedBy(page)
		v.create(m)
		v.pass(time.Minute)
		two.expect(t, "1")
		if now := v.op.Occupancy(); now.DynamicSources != 1 || len(now.Caches) != 3 {
			t.Errorf("%d sources, %d caches, and one controller reads on", now.DynamicSources, len(now.Caches))
		}
		v.delete("two")
		v.pass(time.Minute)
		v.holdsNothing(2, goroutines)
	})
}

// TestC97TicksThatARunAddsDieWithThePrimary: and do not come after they were removed.
func TestC97TicksThatARunAddsDieWithThePrimary(t *testing.T) {
	ticks, err := eventsource.NewTicks("ticks", func(_ *Page, after time.Time) time.Time { return after.Add(time.Minute) })
	noError(t, err)
	r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML == "without" {
			return pageUpdate{}, c.RemoveSource("ticks")
		}
		return pageUpdate{}, c.AddSource(ticks)
	}}
	inVirtualTime(t, r, pageOptions{MaxInterval: scheduler.NoMaxInterval}, func(v *virtual) {
		ran := 0
		expect := func(want int) {
			t.Helper()
			n := len(v.op.Records("webpage"))
			if n-ran != want {
				t.Errorf("%d runs, want %d", n-ran, want)
			}
			ran = n
		}
		v.pass(time.Second)
		goroutines := bubbled()
		v.createPage("p", "with")
		v.pass(10*time.Minute + 30*time.Second)
		expect(11)
		v.patch(newPage("default", "p"), `{"spec":{"html":"without"}}`)
		v.pass(time.Hour)
		expect(1)
		v.holdsNothing(1, goroutines)
		v.patch(newPage("default", "p"), `{"spec":{"html":"with"}}`)
		v.pass(10*time.Minute + 30*time.Second)
		expect(11)
		v.delete("p")
		v.pass(time.Hour)
		expect(0)
		v.drained()
		v.holdsNothing(1, goroutines)
	})
}

// TestG16AnotherClusterGoesWithTheLastSecondariesThere: and one of which none were taken is not
// kept.
func TestG16AnotherClusterGoesWithTheLastSecondariesThere(t *testing.T) {
	a := newAdding()
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		far := newModel(t)
		there, err := client.New(far.Config(), scheme)
		noError(t, err)
		noError(t, there.Create(t.Context(), configMapOf(newPage("default", "p"), "far")))
		a.configMaps.Cluster, a.configMaps.Map = far.Config(), mapToPage("p")
		v.createPage("q", "without")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.createPage("p", "a")
		v.pass(time.Minute)
		a.expect(t, "nothing yet", "1")
		for range 3 {
			expectError(t, v.op.AddSecondary("webpage", &framework.Secondary[*corev1.ConfigMap]{Cluster: newModel(t).Config()}), `"configmap"`)
		}
		noError(t, v.op.AddSecondary("webpage", &a.configMaps))
		if n := framework.Remotes(v.op); n != 1 {
			t.Errorf("%d other clusters, and one is read", n)
		}
		noError(t, there.Delete(t.Context(), configMapOf(newPage("default", "p"), "")))
		v.pass(time.Minute)
		a.expect(t, "0")
		noError(t, v.op.RemoveSource("webpage", "configmap"))
		v.patch(newPage("default", "p"), `{"spec":{"html":"without"}}`)
		v.pass(time.Minute)
		v.holdsNothing(1, goroutines)
		if n := framework.Remotes(v.op); n != 0 {
			t.Errorf("%d other clusters, and none is read", n)
		}
	})
}
