package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
)

// KindPoll is how often discovery is asked for a kind that is not served: one small request each time, and no
// rights beyond those that every client has.
var KindPoll = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 10 * time.Second}

// Life is an operator while it runs.
type Life struct {
	Background context.Context // of what outlives the runs: caches and events
	Stores     sync.WaitGroup
}

// Feed runs those of the stores that are not fed yet.
func (l *Life) Feed(stores []*cache.Store) {
	for _, s := range stores {
		s.StartOnce(func() { l.Watch(s, s.Watching()) })
	}
}

// Watch has a store fed in more namespaces, until they are removed.
func (l *Life) Watch(s *cache.Store, namespaces []string) {
	l.Stores.Go(s.FeedIn(l.Background, namespaces))
}

var ErrUnfilled = errors.New("its caches are not filled yet")
