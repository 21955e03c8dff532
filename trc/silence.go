package trc

import "time"

// Silence is how long the API server has not been heard on a watch.
type Silence struct {
	// Namespace is the watch's, "" for all.
	Namespace string
	// For is the time since the last event, bookmark or list, or since a watch was begun.
	For time.Duration
	// Bookmarked says that the server sends bookmarks, about one a minute: then a longer silence means that the
	// connection is dead though nobody has noticed. Otherwise only the end of the watch, which the server sees to
	// after 10 minutes at the latest, tells a quiet resource from a dead connection.
	Bookmarked bool
}

// Silences tells how long each watch has heard nothing, in no particular order. A watch that nothing has been
// heard of at all counts from the making of the store.
func (s *Store) Silences() []Silence {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]Silence, 0, len(s.watches))
	for namespace, w := range s.watches {
		all = append(all, Silence{
			Namespace:  namespace,
			For:        time.Since(s.born) - time.Duration(w.heard.Load()),
			Bookmarked: w.bookmarked.Load(),
		})
	}
	return all
}

// hear notes a sign of life of the API server.
func (w *Watch) hear() { w.heard.Store(int64(time.Since(w.store.born))) }
