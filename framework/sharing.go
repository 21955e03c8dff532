package framework

import "github.com/evenkeel/evenkeel/framework/internal/cache"

// Stores are shared by all who watch the same, of whatever controller, and counted: the watches end when the last of
// them reads no more. Those of a controller's own options are read until the operator ends.

// release ends what [write.Port.Open] began. It is called with changing held, so that nobody adds watches meanwhile.
func (h *host) release(s *cache.Store) {
	if !s.Cluster.Release(s) {
		return
	}
	s.Unwatch(s.Watching(), nil)
	if h.life != nil {
		h.life.stores.Go(func() {
			s.AwaitEnd()
			s.Cluster.ForgetEchoes(s.Resource)
		})
	}
}
