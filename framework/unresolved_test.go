package framework_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
)

// creator creates a ConfigMap that its page owns, if there is none.
func creator(r *pages) func(context.Context, *Page, *pageContext) (pageUpdate, error) {
	return func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if found, err := r.configMaps.List(c); err != nil || len(found) > 0 {
			return pageUpdate{}, err
		}
		_, err := framework.Create(ctx, c, configMapOf(page, string(page.UID)), framework.OwnedByPrimary())
		return pageUpdate{}, err
	}
}

func isCreateOfConfigMap(r apimodel.Request) bool {
	return r.Verb == "create" && r.Resource == "configmaps"
}

func TestG16AnUnresolvedWriteIsKeptOnce(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.reconcile = creator(r)
		down := true
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: down && isCreateOfConfigMap(r)} })
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Hour)
		synctest.Wait()
		var posts atomic.Int32
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if isCreateOfConfigMap(r) {
				posts.Add(1)
			}
			return apimodel.Fault{}
		})
		time.Sleep(time.Hour)
		if posts := posts.Load(); posts != 1 {
			t.Errorf("%d requests to create one object", posts)
		}
	})
}

func TestG07AnUnresolvedWriteDoesNotHoldUpItsPrimaryForGood(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = creator(&r.pages)
		var fault apimodel.Fault
		fault.Drop = true
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if isCreateOfConfigMap(r) {
				return fault
			}
			return apimodel.Fault{}
		})
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		fault = apimodel.Fault{Answer: &metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "failed calling webhook"}}
		if err := m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if now, err := m.pages.Get(m.Context(), "p", metav1.GetOptions{}); err == nil {
			t.Errorf("%s is still there, with the finalizers %v; runs: %+v", now.GetName(), now.GetFinalizers(), m.op.Records("webpage"))
		}
	})
}

func TestG14AnUnresolvedWriteIsNotRepeatedForAnotherIncarnation(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.configMaps.Map = toPageP
		var drop atomic.Bool
		drop.Store(true)
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if !isCreateOfConfigMap(r) {
				return apimodel.Fault{}
			}
			return apimodel.Fault{Drop: drop.Load()}
		})
		r.reconcile = creator(r)
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Retry: retry.Policy{Initial: time.Second}})()
		first := m.createPage("p")
		time.Sleep(30 * time.Second) // the run repeats its request
		if err := m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		second := m.createPage("p")
		time.Sleep(31 * time.Second)
		drop.Store(false)
		time.Sleep(10 * time.Minute)
		now := m.must(m.configMaps.Get(m.Context(), "p", metav1.GetOptions{}))
		if data := now.Object["data"].(map[string]any)["data"]; data != string(second.GetUID()) {
			t.Errorf("%v was created for %s, which is gone, not for %s", data, first.GetUID(), second.GetUID())
		}
	})
}

func TestG08FindingOutWhatBecameOfAWriteIsNoSuccess(t *testing.T) {
	overModel(t, func(m *modelled) {
		var attempts []int
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			attempts = append(attempts, c.Retry().Attempt)
			if len(attempts) == 3 {
				return pageUpdate{}, nil
			}
			_, err := framework.Create(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
			return pageUpdate{}, errors.Join(err, errors.New("and that"))
		}
		var posts atomic.Int32
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Drop: isCreateOfConfigMap(r) && posts.Add(1) < 60}
		})
		stop := m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		m.createPage("p")
		time.Sleep(time.Hour)
		stop()
		if !slices.Equal(attempts, []int{0, 1, 2}) {
			t.Errorf("attempts %v", attempts)
		}
	})
}
