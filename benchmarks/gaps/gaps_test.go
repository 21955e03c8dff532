package gaps

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	pageContext = framework.Context[*v1.WebPage]
	secondaries = framework.Secondary[*corev1.ConfigMap]
)

// kept is what the caches of these tests select.
var kept = map[string]string{"kept": "yes"}

// selecting is the peer's cache of one namespace that holds what is kept.
func selecting(ns string) cache.Options {
	return cache.Options{
		DefaultNamespaces: map[string]cache.Config{ns: {}},
		ByObject:          map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(kept)}},
	}
}

// blocks asserts that a read waits until its deadline.
func blocks(t *testing.T, what string, read func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blocked)
	defer cancel()
	if err := read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the peer has improved: %s: %v", what, err)
	}
}

func TestPeerHangsInReadsAfterAWriteOutsideTheSelector(t *testing.T) {
	ns := namespace(t)
	c, _ := peerClient(t, true, selecting(ns))
	within, outside := configMap(ns, "within", kept), configMap(ns, "outside", nil)
	must(t, c.Create(t.Context(), within))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(within), &corev1.ConfigMap{}))
	must(t, c.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(ns)))

	must(t, c.Create(t.Context(), outside))
	blocks(t, "get of what was written", func(ctx context.Context) error {
		return c.Get(ctx, client.ObjectKeyFromObject(outside), &corev1.ConfigMap{})
	})
	blocks(t, "list of the kind", func(ctx context.Context) error {
		return c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(ns))
	})
}

func TestOursReadsOnAfterAWriteOutsideTheSelector(t *testing.T) {
	ns := namespace(t)
	a := &author{configMaps: secondaries{LabelSelector: labels.SelectorFromSet(kept).String()}}
	a.code = func(ctx context.Context, c *pageContext, configMaps *secondaries) error {
		for name, labels := range map[string]map[string]string{"within": kept, "outside": nil} {
			if _, err := framework.Apply(ctx, c, configMap(ns, name, labels), framework.OwnedByPrimary()); err != nil {
				return err
			}
		}
		if found, err := configMaps.GetNamed(c, ns, "outside"); err != nil || found != nil {
			return fmt.Errorf("get: what the selector excludes is shown: %v, %w", found, err)
		}
		found, err := configMaps.List(c)
		if err != nil || len(found) != 1 || found[0].Name != "within" {
			return fmt.Errorf("list: want one object, %q: %v, %w", "within", found, err)
		}
		return nil
	}
	inOurRun(t, a, []string{ns})
}

func TestPeerSendsNoDeleteOfWhatItsCacheLacks(t *testing.T) {
	ns := namespace(t)
	c, sent := peerClient(t, true, selecting(ns))
	outside := configMap(ns, "outside", nil)
	must(t, admin.Create(t.Context(), outside))
	if err := c.Delete(t.Context(), configMap(ns, "outside", nil)); !apierrors.IsNotFound(err) {
		t.Errorf("the peer has improved: delete by name: %v", err)
	}
	if deletes := sent.of("DELETE", "configmaps"); len(deletes) > 0 {
		t.Errorf("the peer has improved: it sent %q", deletes)
	}
	must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(outside), outside))
}

// By name means here: a consistent read, and a deletion of the very object it returned. There is no
// deletion of whatever has the name.
func TestOursDeletesByNameWhatItsCacheLacks(t *testing.T) {
	ns := namespace(t)
	outside := configMap(ns, "outside", nil)
	must(t, admin.Create(t.Context(), outside))
	a := &author{configMaps: secondaries{LabelSelector: labels.SelectorFromSet(kept).String()}}
	a.code = func(ctx context.Context, c *pageContext, configMaps *secondaries) error {
		if found, err := configMaps.GetNamed(c, ns, "outside"); err != nil || found != nil {
			return fmt.Errorf("the cache does not lack it: %v, %w", found, err)
		}
		found, err := framework.Live[*corev1.ConfigMap](ctx, c, ns, "outside")
		if err != nil {
			return err
		}
		return framework.Delete(ctx, c, found)
	}
	sent := inOurRun(t, a, []string{ns})
	if deletes := sent.of("DELETE", "configmaps"); len(deletes) != 1 {
		t.Errorf("want one deletion: %q", deletes)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(outside), outside); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestPeerStartsInformersByWriting(t *testing.T) {
	ns := namespace(t)
	c, sent := peerClient(t, true, cache.Options{})
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = ns, "secret"
	must(t, c.Create(t.Context(), secret))
	if watches := sent.of("WATCH", "secrets"); len(watches) == 0 {
		t.Error("the peer has improved: no watch of all Secrets for writing one")
	}
}

func TestOursStartsNoInformersByWriting(t *testing.T) {
	ns := namespace(t)
	a := &author{code: func(ctx context.Context, c *pageContext, _ *secondaries) error {
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = ns, "secret"
		_, err := framework.Apply(ctx, c, secret, framework.OwnedByPrimary())
		return err
	}}
	sent := inOurRun(t, a, []string{ns})
	if writes := sent.of("PATCH", "secrets"); len(writes) != 1 {
		t.Errorf("want one write: %q", writes)
	}
	if reads := append(sent.of("WATCH", "secrets"), sent.of("GET", "secrets")...); len(reads) > 0 {
		t.Errorf("want no read: %q", reads)
	}
}

// With several namespaces the peer takes the progress of one watch for that of all.
func TestPeerReadsStaleWithSeveralNamespaces(t *testing.T) {
	one, other := namespace(t), namespace(t)
	c, _ := peerClient(t, true, cache.Options{DefaultNamespaces: map[string]cache.Config{one: {}, other: {}}},
		stalled("/namespaces/"+one+"/configmaps"))
	written := configMap(one, "written", nil)
	must(t, c.Create(t.Context(), written))
	must(t, admin.Create(t.Context(), configMap(other, "later", nil)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Get(ctx, client.ObjectKeyFromObject(written), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the peer has improved: read of what it wrote: %v", err)
	}
}

func TestOursReadsItsWritesWithSeveralNamespaces(t *testing.T) {
	one, other := namespace(t), namespace(t)
	a := &author{code: func(ctx context.Context, c *pageContext, configMaps *secondaries) error {
		if _, err := framework.Apply(ctx, c, configMap(one, "written", nil), framework.OwnedByPrimary()); err != nil {
			return err
		}
		if err := admin.Create(ctx, configMap(other, "later", nil)); err != nil {
			return err
		}
		// Nothing tells an author when a cache has something that no run is due for.
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
			later, err := configMaps.GetNamed(c, other, "later")
			return later != nil, err
		})
		if err != nil {
			return err
		}
		if found, err := configMaps.GetNamed(c, one, "written"); err != nil || found == nil {
			return fmt.Errorf("its own write is not shown: %w", err)
		}
		return nil
	}}
	inOurRun(t, a, []string{one, other}, stalled("/namespaces/"+one+"/configmaps"))
}

func TestPeerReadsStaleOrWaitsWhileAWatchStalls(t *testing.T) {
	for _, readYourWrites := range []bool{false, true} {
		ns := namespace(t)
		c, _ := peerClient(t, readYourWrites, cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}}, stalled("/configmaps"))
		written := configMap(ns, "written", nil)
		must(t, c.Create(t.Context(), written))
		read := func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKeyFromObject(written), &corev1.ConfigMap{})
		}
		if readYourWrites {
			blocks(t, "read of what it wrote", read)
		} else if err := read(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("the peer has improved: read of what it wrote: %v", err)
		}
	}
}

func TestOursReadsItsWritesWhileAWatchStalls(t *testing.T) {
	ns := namespace(t)
	a := &author{code: func(ctx context.Context, c *pageContext, configMaps *secondaries) error {
		if _, err := framework.Apply(ctx, c, configMap(ns, "written", nil), framework.OwnedByPrimary()); err != nil {
			return err
		}
		if found, err := configMaps.Get(c); err != nil || found == nil {
			return fmt.Errorf("its own write is not shown: %w", err)
		}
		return nil
	}}
	inOurRun(t, a, []string{ns}, stalled("/configmaps"))
}
