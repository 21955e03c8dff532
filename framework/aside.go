package framework

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// reporter makes a Kubernetes event.
type reporter func(gvk schema.GroupVersionKind, about Object, kind EventKind, action, reason, note string, args ...any)

// setAside says that an object is set aside: in the log, and where its owner looks, which is for the instance that leads.
func (c *cluster) setAside(s *sharedStore, u *trc.Undecoded) {
	if errors.Is(u.Err, errUnread) {
		return // it is said already, and the watch ends it
	}
	c.logger.Error(u.Err, "an object does not fit its Go type and is set aside", "kind", s.resource.GVK.String(),
		"objectNamespace", u.GetNamespace(), "objectName", u.GetName())
	c.tellSetAside(s, u)
}

// tellAllSetAside says so of what was set aside while standing by.
func (c *cluster) tellAllSetAside() {
	for _, s := range c.allStores() {
		for _, u := range s.AllSetAside() {
			if !errors.Is(u.Err, errUnread) {
				c.tellSetAside(s, u)
			}
		}
	}
}

func (c *cluster) tellSetAside(s *sharedStore, u *trc.Undecoded) {
	c.event(s.resource.GVK, u, Warning, "Decode", ReasonSetAside, "%s", asideNote(u))
	if !c.fence.Allowed() {
		return
	}
	s.mu.Lock()
	told := slices.Clone(s.onSetAside)
	s.mu.Unlock()
	for _, tell := range told {
		tell(u)
	}
}

// checkSetAside returns an error if a secondary of the primary is set aside, as far as what could be decoded of it
// tells: reads would lack it.
func checkSetAside(c Lookup, store *trc.Store, maps func(trc.Object) []trc.Key) error {
	for _, u := range store.AllSetAside() {
		for _, primary := range maps(u.Object) {
			if primary == c.primaryKey() {
				return setAsideError(c, u)
			}
		}
	}
	return nil
}

func setAsideError(c Lookup, u *trc.Undecoded) error {
	if errors.Is(u.Err, errUnread) {
		return fmt.Errorf("framework: secondary %s of %s: %w", trc.KeyOf(u), c.primaryKey(), u.Err)
	}
	return fmt.Errorf("framework: secondary %s of %s does not fit its Go type: %w", trc.KeyOf(u), c.primaryKey(), u.Err)
}
