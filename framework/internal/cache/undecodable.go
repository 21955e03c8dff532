package cache

import (
	"errors"
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// reportUndecodable reports an undecodable object: in the log and, on the instance that leads, to
// the functions of CallBack.
func (s *Store) reportUndecodable(u *trc.Undecodable) {
	if errors.Is(u.Err, ErrUnread) {
		return // it is logged already, and the watch ends it
	}
	s.Cluster.Logger.Error(u.Err, "an object does not fit its Go type: it is undecodable", "kind", s.Resource.GVK.String(),
		"objectNamespace", u.GetNamespace(), "objectName", u.GetName())
	s.publish(u)
}

// PublishUndecodable reports the objects that became undecodable while this instance was standing
// by.
func (s *Stores) PublishUndecodable() {
	for _, store := range s.AllStores() {
		for u := range store.AllUndecodable() {
			if !errors.Is(u.Err, ErrUnread) {
				store.publish(u)
			}
		}
	}
}

// publish calls the hook, and the functions of CallBack if this instance may write.
func (s *Store) publish(u *trc.Undecodable) {
	s.Cluster.Hooks.Undecodable(s.Resource.GVK, u)
	if !s.Cluster.Fence.Allowed() {
		return
	}
	s.mu.Lock()
	callbacks := slices.Clone(s.onUndecodable)
	s.mu.Unlock()
	for _, call := range callbacks {
		call(u)
	}
}
