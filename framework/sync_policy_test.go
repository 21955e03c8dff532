package framework_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// away are ways of a server to be away.
var away = map[string]func(apimodel.Request) apimodel.Fault{
	"nobody reaches it": func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} },
	"nothing can be listed": func(r apimodel.Request) apimodel.Fault {
		return apimodel.Fault{Drop: r.Verb == "list" || r.Verb == "watch"}
	},
}

// patient is a reader of another cluster that works with what there is.
func patient(r *readers) {
	read := r.reconcile
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		update, err := read(ctx, page, c)
		if errors.Is(err, framework.ErrNotSynced) {
			err = nil
		}
		return update, err
	}
}

func TestC49_AControllerMayGoOnWithoutAClusterThatIsAway(t *testing.T) {
	for name, fault := range away {
		t.Run(name, func(t *testing.T) { goesOnWithout(t, fault) })
	}
}

func goesOnWithout(t *testing.T, fault func(apimodel.Request) apimodel.Fault) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		far.model.Intercept(fault)
		r.configMaps.OnSyncTimeout, r.configMaps.SyncTimeout = framework.SyncOptional, 5*time.Second
		patient(r)
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		m.createPage("q")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		r.expect(t)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.expect(t, "p:", "q:")
		expectError(t, m.op.Ready(), `source "configmap" at http://apimodel`)
		if h := m.op.Health()[0]; h.Problem == "" || h.Synced {
			t.Errorf("%+v", h)
		}
		far.model.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		slices.Sort(r.found)
		r.found = slices.Compact(r.found) // a copy that is there makes its page due by itself, too
		r.mu.Unlock()
		r.expect(t, "p: p=far", "q:")
		noError(t, m.op.Ready())
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch(types.MergePatchType, []byte(`{"data":{"data":"2"}}`))))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "p: p=2")
	})
}

// If it is there in time, it is as if nothing had been said.
func TestC49_AControllerThatNeedNotWaitDoesNotGoOnWithoutIt(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
		r.configMaps.OnSyncTimeout = framework.SyncOptional
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "p: p=far")
		noError(t, m.op.SetNamespaces([]string{"elsewhere"}))
		time.Sleep(time.Minute)
		noError(t, m.op.SetNamespaces([]string{"default"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		last := r.found[len(r.found)-1]
		r.mu.Unlock()
		if last != "p: p=far" {
			t.Errorf("found last: %s", last)
		}
	})
}

func TestC49_EachSourceSaysHowLongItIsWaitedForAndWhatFollows(t *testing.T) {
	for _, c := range []struct {
		name  string
		start framework.StartPolicy
		late  framework.SyncPolicy
		fails bool
	}{
		{"a source that fails where others wait", framework.WaitForAll, framework.SyncFails, true},
		{"a source that waits where others fail", framework.FailStart, framework.SyncWaits, false},
		{"a source as all others", framework.FailStart, framework.SyncByStartPolicy, true},
	} {
		for what, verbs := range map[string][]string{"unreachable": nil, "not listed": {"list", "watch"}} {
			t.Run(c.name+"/"+what, func(t *testing.T) {
				overTwo(t, func(m, far *modelled, _ *client.Client, r *readers) {
					far.model.Intercept(func(r apimodel.Request) apimodel.Fault {
						for _, verb := range verbs {
							if r.Verb == verb {
								return apimodel.Fault{Drop: true}
							}
						}
						return apimodel.Fault{Drop: verbs == nil}
					})
					r.configMaps.OnSyncTimeout, r.configMaps.SyncTimeout = c.late, 10*time.Second
					op, err := framework.NewOperator(m.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, StartPolicy: c.start, SyncTimeout: time.Hour})
					noError(t, err)
					noError(t, framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}))
					running, stop := context.WithCancel(m.Context())
					done := make(chan error, 1)
					go func() { done <- op.Run(running) }()
					time.Sleep(time.Minute)
					synctest.Wait()
					select {
					case err := <-done:
						if !c.fails {
							t.Errorf("ended: %v", err)
						}
						expectError(t, err, "10s", "at http://apimodel")
					default:
						if c.fails {
							t.Error("goes on")
						}
						stop()
						noError(t, <-done)
					}
					stop()
				})
			})
		}
	}
}

func TestC49_APatienceThatMakesNoSenseIsRefused(t *testing.T) {
	r := newReaders()
	r.configMaps.SyncTimeout = -1
	expectError(t, framework.Register(offline(t), r, r.options()), "SyncTimeout")
	r.configMaps.SyncTimeout, r.configMaps.OnSyncTimeout = 0, 17
	expectError(t, framework.Register(offline(t), r, r.options()), "OnSyncTimeout")
}

func TestC49_IndexesOfWhatMayBeLateAreCheckedAtRegistration(t *testing.T) {
	shared := &framework.Index[*corev1.ConfigMap]{Values: func(*corev1.ConfigMap) []string { return nil }}
	indexes := []*framework.Index[*corev1.ConfigMap]{shared}
	prompt := framework.Secondary[*corev1.ConfigMap]{Indexes: indexes}
	late := framework.Secondary[*corev1.ConfigMap]{Name: "late", Indexes: indexes, OnSyncTimeout: framework.SyncOptional}
	err := framework.Register(offline(t), &pages{}, pageOptions{Secondaries: framework.Secondaries(&prompt, &late)})
	expectError(t, err, `secondary "late"`, "is one of this controller already")
}
