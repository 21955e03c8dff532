package apimodel_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	Page        = webpagev1.WebPage
	pageContext = framework.Context[*Page]
	pageUpdate  = framework.UpdateControl[*Page]
)

// keeper gives every page a finalizer, a ConfigMap and a status, and reads its own writes back.
type keeper struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
	t          *testing.T
	runs       chan string
}

func (k *keeper) Reconcile(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
	k.runs <- p.Name
	desired := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		Data:       map[string]string{"html": p.Spec.HTML},
	}
	if _, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary()); err != nil {
		return pageUpdate{}, err
	}
	read, err := k.configMaps.Get(c)
	if err != nil {
		return pageUpdate{}, err
	}
	if read == nil || read.Data["html"] != p.Spec.HTML {
		k.t.Errorf("%s reads %v after it wrote %q", p.Name, read, p.Spec.HTML)
	}
	p.Status.ObservedGeneration = p.Generation
	return framework.PatchStatus(p), nil
}

func (k *keeper) Cleanup(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

// operate runs the keeper against the model until the returned function is called.
func operate(t *testing.T, model *apimodel.Model) (k *keeper, stop func()) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, webpagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme, Name: "keeper"})
	if err != nil {
		t.Fatal(err)
	}
	k = &keeper{t: t, runs: make(chan string, 1000)}
	err = framework.Register(op, k, framework.ControllerOptions[*Page]{Secondaries: framework.Secondaries(&k.configMaps)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	return k, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func client(t *testing.T, model *apimodel.Model) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(model.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnOperatorConvergesThoughItsWatchesLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		model.Lag("webpages", time.Minute)
		model.Lag("configmaps", time.Minute)
		k, stop := operate(t, model)
		pages := client(t, model).Resource(pageGVR).Namespace("default")
		synctest.Wait()
		const n = 5
		for i := range n {
			if _, err := pages.Create(t.Context(), page(fmt.Sprintf("page-%d", i)), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(k.runs) != 0 {
			t.Errorf("%d runs before the watch delivered anything", len(k.runs))
		}
		time.Sleep(time.Hour) // virtual
		synctest.Wait()
		if runs := len(k.runs); runs < n || runs > 2*n { // once more for its own writes, as long as they are not told apart
			t.Errorf("%d runs for %d pages", runs, n)
		}
		for _, p := range model.Objects("webpages") {
			if len(p.GetFinalizers()) != 1 {
				t.Errorf("finalizers of %s: %v", p.GetName(), p.GetFinalizers())
			}
			if err := pages.Delete(t.Context(), p.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if commits := model.History(); len(commits) != 5*n {
			t.Errorf("%d commits, want 5 for each page: %v", len(commits), verbs(commits))
		}
		if found := len(model.Objects("configmaps")); found != n {
			t.Errorf("%d ConfigMaps", found)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if left := model.Objects("webpages"); len(left) != 0 {
			t.Errorf("%d pages are left", len(left))
		}
		stop()
	})
}

func verbs(commits []apimodel.Commit) (all []string) {
	for _, c := range commits {
		all = append(all, fmt.Sprintf("%d %s %s/%s by %s", c.Version, c.Verb, c.Resource, c.Subresource, c.Manager))
	}
	return all
}

func TestAnOperatorConvergesThroughFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		model.Intercept(func(r apimodel.Request) apimodel.Fault {
			switch {
			case r.Number%11 == 5:
				return apimodel.Fault{Drop: true}
			case r.Number%7 == 3:
				return apimodel.Fault{Delay: time.Second, Lose: true}
			case r.Number%13 == 9:
				return apimodel.Fault{Answer: &metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
					Details: &metav1.StatusDetails{RetryAfterSeconds: 2},
				}}
			}
			return apimodel.Fault{}
		})
		_, stop := operate(t, model)
		pages := client(t, model).Resource(pageGVR).Namespace("default")
		create := func(name string) {
			for {
				_, err := pages.Create(t.Context(), page(name), metav1.CreateOptions{})
				if err == nil || apierrors.IsAlreadyExists(err) {
					return
				}
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Minute)
		for i, disturb := range []func(string){model.Cut, model.Expire, model.Stall, model.Release} {
			disturb("webpages")
			disturb("configmaps")
			create(fmt.Sprintf("page-%d", i))
			time.Sleep(5 * time.Minute)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		if found := len(model.Objects("configmaps")); found != 4 {
			t.Errorf("%d ConfigMaps for 4 pages", found)
		}
		for _, p := range model.Objects("webpages") {
			status, _ := p.Object["status"].(map[string]any)
			if status["observedGeneration"] != p.GetGeneration() {
				t.Errorf("%s: status %v at generation %d", p.GetName(), status, p.GetGeneration())
			}
		}
	})
}
