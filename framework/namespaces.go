package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// SetNamespaces changes [OperatorOptions.Namespaces], at any time: controllers and secondaries that name
// namespaces of their own keep to these, which cannot be changed while the operator runs. Empty is all, as is [AllNamespaces].
//
// It returns at once. In a namespace that is added no primary is run before everything its controller reads is
// filled; [Operator.Ready] fails until then. Of one that is removed nothing is read any more, its primaries are
// forgotten as they are (finalizers stay), and runs in flight there are cancelled. A change from all namespaces to
// some, or back, does both to all of them.
func (op *Operator) SetNamespaces(namespaces []string) error {
	if err := checkNamespaces(namespaces); err != nil {
		return fmt.Errorf("framework: SetNamespaces %q: %w", namespaces, err)
	}
	op.changing.Lock()
	defer op.changing.Unlock()
	before, after := namespaceList(op.options.Namespaces), namespaceList(namespaces)
	op.options.Namespaces = slices.Clone(namespaces)
	if op.life == nil {
		return nil
	}
	added, removed := without(after, before), without(before, after)
	if len(added)+len(removed) == 0 {
		return nil
	}
	op.logger.Info("namespaces changed", "added", added, "removed", removed)
	controllers := slices.DeleteFunc(op.runners(), func(c runner) bool { return !c.follows() })
	left := make([][]trc.Object, len(controllers))
	for i, c := range controllers {
		left[i] = c.closeNamespaces(added, removed)
	}
	stores := slices.DeleteFunc(op.allStores(), func(s *sharedStore) bool { return !s.key.follows })
	for _, s := range stores {
		op.removeNamespaces(s, after, removed)
	}
	for i, c := range controllers {
		c.leaveNamespaces(removed, left[i])
	}
	// Not before: what is fed may be of primaries that were just forgotten.
	for _, s := range stores {
		op.life.stores.Go(s.Feed(op.life.background, s.watched(added)...))
	}
	for _, c := range controllers {
		for _, namespace := range added {
			op.life.stores.Go(func() { c.enterNamespace(op.life.background, namespace) })
		}
	}
	return nil
}

// namespaceList is namespaces as stores watch them: one "" for all.
func namespaceList(namespaces []string) []string {
	named := slices.Compact(slices.Sorted(slices.Values(watchedNamespaces(namespaces))))
	if len(named) == 0 {
		return []string{""}
	}
	return named
}

// without returns a without what is in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(namespace string) bool { return slices.Contains(b, namespace) })
}

// removeNamespaces ends watches of a store, which is to watch what it does now then.
func (op *Operator) removeNamespaces(s *sharedStore, now, removed []string) {
	for _, namespace := range removed {
		keys := s.Keys(namespace)
		s.RemoveWatch(namespace)
		for _, key := range keys { // nothing else will tell
			s.of.memo.drop(s.resource.gvk, key)
		}
	}
	s.mu.Lock()
	s.namespaces = now
	s.mu.Unlock()
}

// watching are the namespaces that are watched now.
func (s *sharedStore) watching() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.namespaces)
}

// told waits until what is shown by now has been told of, or ctx ends.
func (s *sharedStore) told(ctx context.Context) {
	if done := s.Delivered(); done != nil {
		await(ctx, done)
	}
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// watched are watches of namespaces.
func (s *sharedStore) watched(namespaces []string) []trc.Watched {
	watched := make([]trc.Watched, len(namespaces))
	for i, namespace := range namespaces {
		watched[i] = trc.Watched{
			Namespace: namespace,
			From:      listWatch{resource: s.resource, namespace: namespace, labels: s.key.labels, fields: s.key.fields},
		}
		if s.resource.hasProtobuf() { // those always decode
			watched[i].Expected = s.resource.newItem()
		}
	}
	return watched
}

// follows tells whether the controller is set up, and reads the namespaces of the operator.
func (c *controller[P]) follows() bool {
	return slices.ContainsFunc(c.reads, func(s *sharedStore) bool { return s.key.follows })
}

// closeNamespaces lets no run begin in namespaces that are added or removed, and returns the primaries in these.
func (c *controller[P]) closeNamespaces(added, removed []string) (leaving []trc.Object) {
	c.gate.close(added)
	c.gate.close(removed)
	c.gate.cancel(func(key trc.Key) bool {
		// What is removed disappears from what these read.
		return key.Namespace == "" || slices.Contains(removed, "") || slices.Contains(removed, key.Namespace)
	})
	if c.store.key.follows {
		for _, namespace := range removed {
			leaving = append(leaving, c.store.List(namespace, nil)...)
		}
	}
	return leaving
}

// leaveNamespaces forgets the primaries of namespaces that are no longer watched: once what was told of them before
// has been told, and before anything is that comes from watches which begin now.
func (c *controller[P]) leaveNamespaces(removed []string, leaving []trc.Object) {
	watched := c.store.watching()
	c.store.After(func() {
		c.gate.open(removed)
		left := c.departures.leave(func(namespace string) bool {
			return slices.Contains(watched, "") || slices.Contains(watched, namespace)
		})
		for _, primary := range leaving {
			c.tellSources(trc.Transition{Old: primary})
			left = append(left, trc.KeyOf(primary))
		}
		for _, key := range left {
			c.scheduler.Forget(key)
			c.gate.forget(key)
			if event, due := c.departures.due(key); due { // its namespace is watched still, as one of all
				c.scheduler.Offer(key, event)
				continue
			}
			c.unresolved.Delete(key)
			c.histories.Forget(recordKey(key))
		}
		if !c.store.key.follows && len(removed) > 0 {
			c.offer(c.store.Keys(""), "namespaces were removed")
		}
	})
}

// enterNamespace lets runs into a namespace once all that they read there is filled.
func (c *controller[P]) enterNamespace(ctx context.Context, added string) {
	for _, s := range c.reads {
		if !s.key.follows {
			continue
		}
		select {
		case <-s.Filled(added):
		case <-ctx.Done():
			return
		}
		s.told(ctx) // or it would bring a second run
	}
	refused := c.gate.open([]string{added})
	if c.store.key.follows { // the others have run since, or are about to: they were told of as additions
		c.offer(refused, readmitted)
	} else {
		c.offer(c.store.Keys(""), "namespaces were added")
	}
	c.awaitLateIn(ctx, added)
}

// readmitted is why primaries are due that were refused before their namespace was filled. One that has come in since, for
// whatever else, is not due for that any more: see needsRun.
const readmitted = "the namespace was added"

func (c *controller[P]) offer(primaries []trc.Key, why string) {
	for _, key := range primaries {
		c.scheduler.Offer(key, scheduler.Event{Cause: timeline.External{Source: c.name, ID: why}, Lane: scheduler.BulkLane})
	}
}

func (c *controller[P]) closedNamespaces() []string { return c.gate.closedNow() }

// errNamespacesChanged is the cause of the end of runs that [Operator.SetNamespaces] ends.
var errNamespacesChanged = errors.New("framework: the namespaces of the operator have changed")
