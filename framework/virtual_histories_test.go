package framework_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// inspector notes what runs saw last of each page, and that no two runs of one overlap (G06).
type inspector struct {
	*pages
	t *testing.T

	mu      sync.Mutex // guards below
	rand    *rand.Rand
	calm    bool
	running map[string]bool
	saw     map[string]string // what the last run of a page that succeeded saw
}

func newInspector(t *testing.T, random *rand.Rand) *inspector {
	i := &inspector{pages: &pages{}, t: t, rand: random, running: map[string]bool{}, saw: map[string]string{}}
	i.reconcile = i.inspect
	return i
}

func (i *inspector) inspect(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	key, takes, fate := c.Key().String(), time.Duration(0), -1
	i.mu.Lock()
	if i.running[key] {
		i.t.Errorf("two runs of %s at once", key)
	}
	i.running[key] = true
	if !i.calm {
		takes, fate = time.Duration(i.rand.Int64N(int64(2*time.Second))), i.rand.IntN(6)
	}
	i.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	var err error
	if !c.Gone() {
		_, err = framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.running, key)
	switch {
	case err != nil:
		return pageUpdate{}, err
	case fate == 0:
		return pageUpdate{}, errors.New("bad luck")
	case fate == 1:
		panic("worse luck")
	case fate == 2:
		return pageUpdate{}, retry.After(errors.New("busy"), time.Second)
	case !c.Gone():
		i.saw[key] = page.Spec.HTML
	}
	return pageUpdate{}, nil
}

// happen does something to the pages, the watches or the operator at random.
func (i *inspector) happen(v *virtual, step int) {
	i.mu.Lock()
	what, ns, name := i.rand.IntN(10), []string{"default", "other"}[i.rand.IntN(2)], fmt.Sprint("p", i.rand.IntN(3))
	i.mu.Unlock()
	page := newPage(ns, name)
	page.Spec.HTML = fmt.Sprint(step)
	switch what {
	case 0, 1, 2:
		if err := v.admin.Create(v.t.Context(), page); err != nil && !apierrors.IsAlreadyExists(err) {
			v.t.Fatal(err)
		}
	case 3, 4:
		if err := v.admin.Delete(v.t.Context(), page); err != nil && !apierrors.IsNotFound(err) {
			v.t.Fatal(err)
		}
	case 5, 6:
		if len(v.model.Objects("webpages")) > 0 {
			live := v.model.Objects("webpages")[0]
			v.patch(newPage(live.GetNamespace(), live.GetName()), fmt.Sprintf(`{"spec":{"html":"%d"}}`, step))
		}
	case 7:
		noError(v.t, v.op.SetNamespaces([][]string{{"default"}, {"other"}, {"default", "other"}, nil}[step%4]))
	case 8:
		v.model.Expire("webpages")
	case 9:
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Lose: r.Number%7 == 0, Drop: r.Number%11 == 0}
		})
	}
}

// TestG07WhateverHappensEveryPageIsRunAsItIsAtLast: whatever happens to pages, their namespaces,
// watches and requests.
func TestG07WhateverHappensEveryPageIsRunAsItIsAtLast(t *testing.T) {
	for seed := range depth.Of(uint64(6), 20, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			i := newInspector(t, random)
			options := withConfigMaps(i.pages, pageOptions{
				AllEvents: seed%2 == 0, MaxInterval: scheduler.NoMaxInterval, Concurrency: 2,
				Retry: retry.Policy{Initial: time.Second, Max: 5 * time.Second},
			})
			if seed%3 == 0 {
				options.RateLimit = scheduler.RateLimit{Runs: 2, Period: 7 * time.Second}
			}
			inVirtualTime(t, i, options, func(v *virtual) {
				for step := range 60 {
					i.happen(v, step)
					i.mu.Lock()
					wait := time.Duration(random.Int64N(int64(3 * time.Second)))
					i.mu.Unlock()
					v.pass(wait)
				}
				v.disturb(nil)
				i.mu.Lock()
				i.calm = true
				i.mu.Unlock()
				noError(t, v.op.SetNamespaces(nil))
				v.pass(30 * time.Minute)
				for _, page := range v.model.Objects("webpages") {
					key := page.GetNamespace() + "/" + page.GetName()
					spec := page.Object["spec"].(map[string]any)
					if i.saw[key] != spec["html"] {
						t.Errorf("%s is %v, and the last run saw %s", key, spec["html"], i.saw[key])
					}
					noError(t, v.admin.Delete(t.Context(), newPage(page.GetNamespace(), page.GetName())))
				}
				v.pass(30 * time.Minute)
				v.drained()
				if all := v.op.Records("webpage"); t.Failed() {
					t.Log(all[max(0, len(all)-8):])
				}
				v.atRest()
			})
		})
	}
}
