package framework

import (
	"github.com/evenkeel/evenkeel/framework/internal/client"
)

// Stores are shared by all who watch the same, of whatever controller, and counted: the watches end when the last of
// them reads no more. Those of a controller's own options are read until the operator ends.

// release ends what [cluster.storeOf] began. It is called with changing held, so that nobody adds watches meanwhile.
func (op *Operator) release(s *sharedStore) {
	if !s.cluster.leave(s) {
		return
	}
	op.removeNamespaces(s, nil, s.watching())
	if op.life != nil {
		op.life.stores.Go(func() {
			s.fed.Wait()
			s.cluster.restEchoes(s.resource)
		})
	}
}

// leave takes one user off a store, and reports whether that was the last: then nobody finds it any more.
func (c *cluster) leave(s *sharedStore) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users > 0 {
		return false
	}
	delete(c.stores, s.key)
	return true
}

// restEchoes forgets the answers of a resource that no watch will bring again.
func (c *cluster) restEchoes(r *client.Client) {
	if c.isWatched(r) {
		return
	}
	r.Echoes.Rest()
	if c.isWatched(r) { // again, by now; it may have said so before
		r.Echoes.Watched.Store(true)
	}
}

func (c *cluster) isWatched(r *client.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.stores {
		if s.resource == r {
			return true
		}
	}
	return false
}
