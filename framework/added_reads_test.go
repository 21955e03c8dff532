package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// reads is a reconciler that adds its ConfigMaps and reads them in every way there is.
type reads struct {
	pages
	byData framework.Index[*corev1.ConfigMap]
	// add adds them; nil if they are declared.
	add  func(c *pageContext) error
	then func(ctx context.Context, page *Page, c *pageContext) error

	mu  sync.Mutex // guards below
	saw []string   // by each run
}

func newReads() *reads {
	r := &reads{}
	r.add = func(c *pageContext) error { return c.AddSecondary(&r.configMaps) }
	r.byData = framework.Index[*corev1.ConfigMap]{Name: "data", Values: func(m *corev1.ConfigMap) []string { return []string{m.Data["data"]} }}
	r.configMaps.Map, r.configMaps.Indexes = mapToPage("p"), []*framework.Index[*corev1.ConfigMap]{&r.byData}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if r.add != nil {
			if err := r.add(c); err != nil {
				return pageUpdate{}, err
			}
		}
		line, err := r.everyWay(ctx, c)
		if err == nil && r.then != nil {
			err = r.then(ctx, page, c)
		}
		r.mu.Lock()
		r.saw = append(r.saw, line)
		r.mu.Unlock()
		return pageUpdate{}, err
	}
	return r
}

// everyWay tells what all ways to read say, which must agree.
func (r *reads) everyWay(ctx context.Context, c *pageContext) (string, error) {
	one, err := r.configMaps.Get(c)
	said := "none"
	if one != nil {
		said = one.Data["data"]
	}
	ways := map[string]func() (*corev1.ConfigMap, error){
		"One":       func() (*corev1.ConfigMap, error) { return framework.One[*corev1.ConfigMap](c) },
		"by source": func() (*corev1.ConfigMap, error) { return framework.One[*corev1.ConfigMap](c, "configmap") },
		"Find":      func() (*corev1.ConfigMap, error) { return framework.GetNamed[*corev1.ConfigMap](c, "default", "p") },
		"index":     func() (*corev1.ConfigMap, error) { return r.byData.Get(c, said) },
		"GetWhole":  func() (*corev1.ConfigMap, error) { return r.configMaps.GetWhole(ctx, c, "default", "p") },
	}
	for name, way := range ways {
		m, wayErr := way()
		switch {
		case errors.Is(err, framework.ErrNotSynced) && wayErr == nil: // it was filled in between
		case (err == nil) != (wayErr == nil), errors.Is(err, framework.ErrNotSynced) != errors.Is(wayErr, framework.ErrNotSynced):
			return "", fmt.Errorf("%s says %w, Get %w", name, wayErr, err)
		case (m == nil) != (one == nil), m != nil && m.Data["data"] != said:
			return "", fmt.Errorf("%s finds %v, Get %s", name, m, said)
		}
	}
	if err != nil {
		said = "nothing yet"
	}
	return said, err
}

func (r *reads) expect(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.saw, ", "); got != strings.Join(want, ", ") {
		t.Errorf("runs saw %q, want %q", got, want)
	}
	r.saw = nil
}

// TestC98WhatARunAddsIsReadInEveryWay: by type, by source, by index, by name, and whole.
func TestC98WhatARunAddsIsReadInEveryWay(t *testing.T) {
	r := newReads()
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(configMapOf(newPage("default", "p"), "a"))
		v.createPage("p", "x")
		v.pass(time.Minute)
		r.expect(t, "nothing yet", "a")
		for _, record := range v.op.Records("webpage") {
			if record.Err != "" {
				t.Error(record.Err)
			}
		}
		v.patch(configMapOf(newPage("default", "p"), ""), `{"data":{"data":"b"}}`)
		v.pass(time.Minute)
		r.expect(t, "b")
	})
}

// TestG05WhatARunWritesToAnAddedClusterIsItsOwn, readable at once, and triggers nobody.
func TestG05WhatARunWritesToAnAddedClusterIsItsOwn(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, _ *readers) {
		r := newReads()
		r.configMaps.Cluster = far.model.Config()
		r.then = func(ctx context.Context, page *Page, c *pageContext) error {
			if _, err := framework.Apply(ctx, r.configMaps.In(c), configMapOf(page, page.Spec.HTML)); err != nil {
				return err
			}
			now, err := r.configMaps.Get(c)
			if err == nil && now.Data["data"] != page.Spec.HTML {
				err = fmt.Errorf("written was %q, read is %v", page.Spec.HTML, now.Data)
			}
			return err
		}
		far.model.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} }) // or it might be filled during the first run
		defer m.operate(r, pageOptions{})()
		m.createPage("p")
		time.Sleep(time.Second)
		synctest.Wait()
		r.expect(t, "nothing yet")
		far.model.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "far")
		now := &corev1.ConfigMap{}
		noError(t, there.Get(m.Context(), types.NamespacedName{Namespace: "default", Name: "p"}, now))
		if h := m.op.Health()[0]; h.Source != "configmap" || h.Cluster == "" || h.Problem != "" || !h.Synced || h.Objects != 1 {
			t.Errorf("%+v", h)
		}
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch(types.MergePatchType, []byte(`{"data":{"data":"theirs"}}`))))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "theirs")
	})
}

// TestC49WhatMayComeLateIsDeclaredForAllThat: it is read in every way, is the same if a run adds
// it, and is not removed.
func TestC49WhatMayComeLateIsDeclaredForAllThat(t *testing.T) {
	overTwo(t, func(m, far *modelled, _ *client.Client, _ *readers) {
		r := newReads()
		r.configMaps.Cluster, r.configMaps.OnSyncTimeout, r.configMaps.SyncTimeout = far.model.Config(), framework.SyncOptional, time.Second
		far.model.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} })
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "nothing yet")
		expectError(t, m.op.RemoveSource("webpage", "configmap"), "ControllerOptions")
		far.model.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "far")
		r.add = func(c *pageContext) error {
			if err := c.RemoveSource("configmap"); err == nil {
				return errors.New("it was removed")
			}
			return nil
		}
		noError(t, m.op.SetNamespaces([]string{"elsewhere"}))
		time.Sleep(time.Minute)
		noError(t, m.op.SetNamespaces([]string{"default"}))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.saw) == 0 || r.saw[len(r.saw)-1] != "far" {
			t.Errorf("runs saw %q", r.saw)
		}
	})
}
