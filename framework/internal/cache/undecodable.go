package cache

import (
	"errors"
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// undecodable says that an object is set aside: in the log, and where its owner looks, which is for the instance that leads.
func (c *Cluster) undecodable(s *Store, u *trc.Undecodable) {
	if errors.Is(u.Err, ErrUnread) {
		return // it is said already, and the watch ends it
	}
	c.Logger.Error(u.Err, "an object does not fit its Go type and is set aside", "kind", s.Resource.GVK.String(),
		"objectNamespace", u.GetNamespace(), "objectName", u.GetName())
	c.publish(s, u)
}

// PublishUndecodable says so of what was set aside while standing by.
func (c *Cluster) PublishUndecodable() {
	for _, s := range c.AllStores() {
		for _, u := range s.AllUndecodable() {
			if !errors.Is(u.Err, ErrUnread) {
				c.publish(s, u)
			}
		}
	}
}

func (c *Cluster) publish(s *Store, u *trc.Undecodable) {
	c.Hooks.Undecodable(s.Resource.GVK, u)
	if !c.Fence.Allowed() {
		return
	}
	s.mu.Lock()
	told := slices.Clone(s.onSetAside)
	s.mu.Unlock()
	for _, tell := range told {
		tell(u)
	}
}
