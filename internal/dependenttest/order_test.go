package dependenttest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// logged runs a test with an operator whose log it can see.
func logged(t *testing.T, r framework.Reconciler[*Page], options pageOptions, test func(v *virtual, lines func(part string) []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		noError(t, err)
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		noError(t, err)
		v := &virtual{T: t, model: model}
		v.admin, err = client.New(model.Config(), scheme)
		noError(t, err)
		var mu sync.Mutex
		var all []string
		logger := funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, line)
		}, funcr.Options{})
		v.op, err = framework.NewOperator(model.Config(), framework.OperatorOptions{Scheme: scheme, Name: "virtual", Grace: -1, Logger: logger})
		noError(t, err)
		options.KeepRecords = 1000
		noError(t, framework.Register(v.op, r, options))
		v.start()
		synctest.Wait()
		test(v, func(part string) (found []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, line := range all {
				if strings.Contains(line, part) {
					found = append(found, line)
				}
			}
			return found
		})
		v.stop()
	})
}

// reader desires a ConfigMap that holds what another node's holds.
func reader(name string, of func(c *pageContext) (string, error), dependsOn ...string) *configMap {
	return &configMap{Name: name, DependsOn: dependsOn, Desired: func(_ context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
		data, err := of(c)
		return dataOf(page.Namespace, page.Name+"-"+name, data), err
	}}
}

// TestAReadOfANodeThatIsNotDependedOnIsTold once, in the log and by an event, with the names of
// both.
func TestAReadOfANodeThatIsNotDependedOnIsTold(t *testing.T) {
	const part = "does not depend on"
	single := func(k *configMap) func(c *pageContext) (string, error) {
		return func(c *pageContext) (string, error) {
			o, err := k.Get(c)
			if o == nil {
				return "", err
			}
			return o.Data["data"], err
		}
	}
	nothingRead := func(*pageContext) (string, error) { return "x", nil }
	for _, concurrency := range []int{1, 0} {
		for name, c := range map[string]struct {
			nodes func() []framework.Dependent[*Page]
			want  []string // "reader reads read"
		}{
			"one reads another": {func() []framework.Dependent[*Page] {
				a := reader("a", nothingRead)
				return []framework.Dependent[*Page]{a, reader("b", single(a))}
			}, []string{`"node"="b" "reads"="a"`}},
			"it depends on it": {func() []framework.Dependent[*Page] {
				a := reader("a", nothingRead)
				return []framework.Dependent[*Page]{a, reader("b", single(a), "a")}
			}, nil},
			"it depends on it by way of others": {func() []framework.Dependent[*Page] {
				a := reader("a", nothingRead)
				return []framework.Dependent[*Page]{a, reader("between", nothingRead, "a"), reader("b", single(a), "between")}
			}, nil},
			"against the order": {func() []framework.Dependent[*Page] {
				a, b := &configMap{}, &configMap{}
				*a = configMap{Name: "a", Desired: func(_ context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
					_, err := b.Get(c)
					return dataOf(page.Namespace, page.Name+"-a", "x"), err
				}}
				*b = configMap{Name: "b", DependsOn: []string{"a"}, Desired: named("-b")}
				return []framework.Dependent[*Page]{a, b}
			}, []string{`"node"="a" "reads"="b"`}},
			"a set": {func() []framework.Dependent[*Page] {
				set := &configMaps{Name: "set", Desired: words}
				return []framework.Dependent[*Page]{set, reader("b", func(c *pageContext) (string, error) {
					all, err := set.List(c)
					return fmt.Sprint(len(all)), err
				})}
			}, []string{`"node"="b" "reads"="set"`}},
			"a set reads": {func() []framework.Dependent[*Page] {
				a := reader("a", nothingRead)
				return []framework.Dependent[*Page]{a, &configMaps{Name: "set", Desired: func(ctx context.Context, page *Page, c *pageContext) ([]*corev1.ConfigMap, error) {
					if _, err := a.Get(c); err != nil {
						return nil, err
					}
					return words(ctx, page, c)
				}}}
			}, []string{`"node"="set" "reads"="a"`}},
			"what is only read has no turn": {func() []framework.Dependent[*Page] {
				input := &configMap{Name: "input", Access: dependent.ReadOnly}
				input.Secondary.By = eventsource.Names{Suffix: "-input"}
				return []framework.Dependent[*Page]{input, reader("b", single(input))}
			}, nil},
		} {
			t.Run(fmt.Sprint(name, " ", concurrency), func(t *testing.T) {
				options := managing(c.nodes()...)
				options.Workflow.Concurrency = concurrency
				logged(t, nothing(), options, func(v *virtual, lines func(string) []string) {
					v.create(newPage("p", "a=1"), newPage("q", "b=1"))
					v.pass(time.Minute)
					v.label("p", "run", `"again"`)
					v.pass(time.Minute)
					got := lines(part)
					if len(got) != len(c.want) {
						t.Fatalf("logged %q, want %q", got, c.want)
					}
					for i, want := range c.want {
						if !strings.Contains(got[i], want) {
							t.Errorf("logged %q, want %q", got[i], want)
						}
					}
					var events eventsv1.EventList
					noError(t, v.admin.List(v.Context(), &events))
					n := 0
					for _, e := range events.Items {
						if e.Reason == "MissingDependsOn" {
							n++
						}
					}
					if n != len(c.want) {
						t.Errorf("there are %d events, want %d", n, len(c.want))
					}
				})
			})
		}
	}
}

// TestAReadOutsideOfADesiredIsNoReadOfANode: Reconcile may read all of them.
func TestAReadOutsideOfADesiredIsNoReadOfANode(t *testing.T) {
	a, b := &configMap{Name: "a", Desired: named("-a")}, &configMap{Name: "b", Desired: named("-b")}
	r := nothing()
	r.reconcile = func(_ context.Context, _ *Page, c *pageContext) error {
		_, err := a.Get(c)
		return err
	}
	logged(t, r, managing(a, b), func(v *virtual, lines func(string) []string) {
		v.create(newPage("p", "x"))
		v.pass(time.Minute)
		if got := lines("does not depend on"); len(got) > 0 {
			t.Errorf("logged %q", got)
		}
	})
}

// TestAnOwnedWriteOfAKindThatIsNotWatchedIsTold once, with the kind and what to add.
func TestAnOwnedWriteOfAKindThatIsNotWatchedIsTold(t *testing.T) {
	const part = "does not watch"
	var maps framework.Secondary[*corev1.ConfigMap]
	writes := map[string]func(ctx context.Context, page *Page, c *pageContext) error{
		"applied": func(ctx context.Context, page *Page, c *pageContext) error {
			_, err := framework.Apply(ctx, c, dataOf(page.Namespace, page.Name, page.Spec.HTML), framework.OwnedByPrimary())
			return err
		},
		"patched": func(ctx context.Context, page *Page, c *pageContext) error {
			_, err := framework.Apply(ctx, c, dataOf(page.Namespace, page.Name, page.Spec.HTML), framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
			return err
		},
		"created": func(ctx context.Context, page *Page, c *pageContext) error {
			o := dataOf(page.Namespace, "", page.Spec.HTML)
			o.GenerateName = "x-"
			_, err := framework.Create(ctx, c, o, framework.OwnedByPrimary())
			return err
		},
	}
	for name, write := range writes {
		for watched, options := range map[bool]pageOptions{false: {}, true: reading(&maps)} {
			t.Run(fmt.Sprint(name, " watched ", watched), func(t *testing.T) {
				logged(t, &pages{reconcile: write}, options, func(v *virtual, lines func(string) []string) {
					v.create(newPage("p", "x"), newPage("q", "x"))
					v.html("p", "y")
					v.pass(time.Minute)
					got := lines(part)
					if want := map[bool]int{false: 1, true: 0}[watched]; len(got) != want {
						t.Fatalf("logged %q, want %d lines", got, want)
					}
					for _, line := range got {
						if !strings.Contains(line, `"kind"="ConfigMap"`) || !strings.Contains(line, "ControllerOptions.Secondaries") {
							t.Errorf("logged %q", line)
						}
					}
				})
			})
		}
	}
	t.Run("not owned", func(t *testing.T) {
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
			_, err := framework.Apply(ctx, c, dataOf(page.Namespace, page.Name, page.Spec.HTML))
			return err
		}}
		logged(t, r, pageOptions{}, func(v *virtual, lines func(string) []string) {
			v.create(newPage("p", "x"))
			v.pass(time.Minute)
			if got := lines(part); len(got) > 0 {
				t.Errorf("logged %q", got)
			}
		})
	})
	t.Run("of a node that comes and goes", func(t *testing.T) {
		k := &configMap{Desired: htmlOf, ActivationCondition: labelled("wanted")}
		logged(t, nothing(), managing(k), func(v *virtual, lines func(string) []string) {
			v.create(newPage("p", "x"))
			v.label("p", "wanted", `"yes"`)
			v.expectStates("p", "configmap=Ready")
			if got := lines(part); len(got) > 0 {
				t.Errorf("logged %q", got)
			}
		})
	})
}
