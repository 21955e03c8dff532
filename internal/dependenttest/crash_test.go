package dependenttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// fourKinds are a chain of dependents of each tie, and a set.
func fourKinds() []framework.Dependent[*Page] {
	marked := &configMap{Name: "marked", DependsOn: []string{"owned"}, Tie: dependent.Referenced}
	marked.Desired = func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
		return dataOf("elsewhere", page.Name, page.Spec.HTML), nil
	}
	return []framework.Dependent[*Page]{
		&configMap{Name: "owned", Desired: named("-owned")}, marked,
		&configMaps{Name: "words", DependsOn: []string{"marked"}, Desired: words, Tie: dependent.OwnedAndDeleted},
		&configMap{Name: "last", DependsOn: []string{"words"}, Desired: named("-last"), Tie: dependent.OwnedAndDeleted},
	}
}

// liveThrough creates, changes and deletes a page under an operator that dies once, and is followed
// by another.
func liveThrough(t *testing.T, at int, when testenv.When) (history string, writes int) {
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		noError(t, err)
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		noError(t, err)
		admin, err := client.New(model.Config(), scheme)
		noError(t, err)
		operate := func(change func(*rest.Config)) (stop func()) {
			config := rest.CopyConfig(model.Config())
			change(config)
			op, err := framework.NewOperator(config, framework.OperatorOptions{Logger: quiet, Scheme: scheme, Name: "crashing", Grace: -1})
			noError(t, err)
			noError(t, framework.Register(op, nothing(), managing(fourKinds()...)))
			running, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- op.Run(running) }()
			return func() { cancel(); <-done }
		}
		crash := testenv.NewCrash(at, when)
		stop := operate(func(config *rest.Config) { config.Wrap(crash.Wrap) })
		synctest.Wait()
		// step passes time; where the operator has died, another one comes.
		step := func() {
			time.Sleep(2 * time.Minute)
			select {
			case <-crash.Dead:
				stop()
				stop = operate(func(*rest.Config) {})
				crash.Dead = nil
				time.Sleep(2 * time.Minute)
			default:
			}
			synctest.Wait()
		}
		noError(t, admin.Create(t.Context(), newPage("p", "a=1 b=1")))
		step()
		noError(t, admin.Patch(t.Context(), newPage("p", ""), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"html":"b=2 c=1"}}`))))
		step()
		state := contents(t, admin)
		noError(t, admin.Delete(t.Context(), newPage("p", "")))
		step()
		stop()
		history, writes = state+"; "+comings(model)+"; left "+contents(t, admin), crash.Writes()
	})
	return history, writes
}

// contents are the ConfigMaps there are, and pages.
func contents(t *testing.T, admin *client.Client) string {
	t.Helper()
	var all []string
	var maps corev1.ConfigMapList
	noError(t, admin.List(t.Context(), &maps))
	for _, o := range maps.Items {
		all = append(all, fmt.Sprintf("%s/%s=%s", o.Namespace, o.Name, o.Data["data"]))
	}
	var pages pageList
	noError(t, admin.List(t.Context(), &pages))
	for _, o := range pages.Items {
		all = append(all, o.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// comings are the creations and deletions of each object.
func comings(model *apimodel.Model) string {
	var all []string
	for _, c := range model.History() {
		if c.Resource == "configmaps" && (c.Previous == nil || c.Event == "DELETED") {
			all = append(all, fmt.Sprintf("%s %s", c.Event, c.Object.GetName()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestG13ACrashAtAnyWriteChangesNothingOfTheEnd, nor what is created and deleted on the way to it.
func TestG13ACrashAtAnyWriteChangesNothingOfTheEnd(t *testing.T) {
	want, writes := liveThrough(t, 0, testenv.BeforeRequest)
	if writes < 12 || !strings.HasSuffix(want, "left default/p-owned=b=2 c=1-owned") {
		t.Fatalf("%d writes: %s", writes, want) // what is owned, the cluster collects
	}
	for at := 1; at <= writes; at++ {
		for _, when := range []testenv.When{testenv.BeforeRequest, testenv.AfterCommit, testenv.AfterAnswer} {
			if got, _ := liveThrough(t, at, when); got != want {
				t.Errorf("died %v write %d:\n%s, want\n%s", when, at, got, want)
			}
		}
	}
}
