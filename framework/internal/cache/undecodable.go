package cache

import (
	"errors"
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// undecodable reports an undecodable object: in the log and, on the instance that leads, to the
// functions of CallBack.
func (c *Cluster) undecodable(s *Store, u *trc.Undecodable) {
	if errors.Is(u.Err, ErrUnread) {
		return // it is logged already, and the watch ends it
	}
	c.Logger.Error(u.Err, "an object does not fit its Go type: it is undecodable", "kind", s.Resource.GVK.String(),
		"objectNamespace", u.GetNamespace(), "objectName", u.GetName())
	c.publish(s, u)
}

// PublishUndecodable reports the objects that became undecodable while this instance was standing
// by.
func (c *Cluster) PublishUndecodable() {
	for _, s := range c.AllStores() {
		for _, u := range s.AllUndecodable() {
			if !errors.Is(u.Err, ErrUnread) {
				c.publish(s, u)
			}
		}
	}
}

// publish calls the hook, and the functions of CallBack if this instance may write.
func (c *Cluster) publish(s *Store, u *trc.Undecodable) {
	c.Hooks.Undecodable(s.Resource.GVK, u)
	if !c.Fence.Allowed() {
		return
	}
	s.mu.Lock()
	callbacks := slices.Clone(s.onUndecodable)
	s.mu.Unlock()
	for _, call := range callbacks {
		call(u)
	}
}
