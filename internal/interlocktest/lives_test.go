package interlocktest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	appNames, databaseNames = 64, 64
	// window is from how many names a life chooses its databases. It moves on from life to life, so
	// that databases come out of use and can go.
	window = 16
	// actors are how many of each kind there are at a time, besides those in deletion.
	actors = 12
	// dawdling is how long others wait at most between two steps.
	dawdling = 2500 * time.Millisecond
)

// life is what becomes of an app or a database that others create: it is changed, and deleted.
type life struct {
	// names are tried in order until one is free: of another life it may be in deletion.
	names []string
	// uses are what an app refers to, one after the other.
	uses []string
	// kept: a database is born with the finalizer.
	kept bool
	// pauses are before its changes and its deletion.
	pauses []time.Duration
}

// lifeOf is the n-th life that an actor gives. Equal seeds make equal lives.
func lifeOf(kind kind, seed uint64, actor, n int) life {
	r := rand.New(rand.NewPCG(seed, uint64(kind)<<60|uint64(actor)<<32|uint64(n)))
	var l life
	steps := 1 + r.IntN(3)
	switch kind {
	case apps:
		for _, i := range r.Perm(appNames) {
			l.names = append(l.names, fmt.Sprintf("app-%d", i))
		}
		for range steps {
			l.uses = append(l.uses, usesOf(r, n))
		}
	case databases:
		for _, i := range r.Perm(window) {
			l.names = append(l.names, databaseName(n+i))
		}
		l.kept = r.IntN(2) == 0
	}
	for range steps {
		l.pauses = append(l.pauses, time.Duration(r.Int64N(int64(dawdling))))
	}
	return l
}

// usesOf are one or two databases of the window of the n-th lives, as an app names them.
func usesOf(r *rand.Rand, n int) string {
	var names []string
	for _, i := range r.Perm(window)[:1+r.IntN(2)] {
		names = append(names, databaseName(n+i))
	}
	return strings.Join(names, ",")
}

func databaseName(i int) string { return fmt.Sprintf("database-%d", i%databaseNames) }

// load is what others do, without regard to anybody.
type load struct {
	ns    string
	seed  uint64
	lives int // of each kind
}

// run returns when everything was created and its deletion requested, or the context has ended.
func (l load) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var acting sync.WaitGroup
	for _, kind := range []kind{apps, databases} {
		for actor := range actors {
			acting.Go(func() {
				for n := 0; actor+n*actors < l.lives && ctx.Err() == nil; n++ {
					if err := l.live(ctx, kind, lifeOf(kind, l.seed, actor, n)); err != nil {
						cancel(err)
					}
				}
			})
		}
	}
	acting.Wait()
	return context.Cause(ctx)
}

// live plays one life.
func (l load) live(ctx context.Context, kind kind, its life) error {
	o, err := l.create(ctx, kind, its)
	if err != nil {
		return err
	}
	for i, pause := range its.pauses {
		after(ctx, pause)
		if i+1 >= len(its.uses) {
			break
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": o.GetUID()}, "data": map[string]any{usesKey: its.uses[i+1]},
		})
		if err != nil {
			return err
		}
		if _, err := admin.CoreV1().ConfigMaps(l.ns).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	uid := o.GetUID()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
	if kind == apps {
		return admin.CoreV1().ConfigMaps(l.ns).Delete(ctx, o.GetName(), options)
	}
	return admin.CoreV1().Secrets(l.ns).Delete(ctx, o.GetName(), options)
}

// create creates it under the first name that is free.
func (l load) create(ctx context.Context, kind kind, its life) (o metav1.Object, err error) {
	for {
		for _, name := range its.names {
			meta := metav1.ObjectMeta{Name: name, Namespace: l.ns}
			if kind == apps {
				o, err = admin.CoreV1().ConfigMaps(l.ns).Create(ctx, &app{ObjectMeta: meta, Data: map[string]string{usesKey: its.uses[0]}}, metav1.CreateOptions{})
			} else {
				if its.kept {
					of := relation()
					meta.Finalizers = []string{of.Finalizer()}
				}
				o, err = admin.CoreV1().Secrets(l.ns).Create(ctx, &database{ObjectMeta: meta}, metav1.CreateOptions{})
			}
			if !apierrors.IsAlreadyExists(err) {
				return o, err
			}
		}
		// Polled, so that a name is taken anew soon after it came free.
		if after(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// after waits for a while in which others may do something.
func after(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
