package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
)

// KindPoll spaces the requests to discovery for a kind that is not served. Each is one small
// request, and needs no rights beyond those that every client has.
var KindPoll = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 10 * time.Second}

// Life is a running operator.
type Life struct {
	Background context.Context // of caches and events, which outlive the runs
	Stores     sync.WaitGroup  // the goroutines that feed stores
}

// Feed starts to feed the stores that are not fed yet. The caller must hold Host.Changing.
func (l *Life) Feed(stores []*cache.Store) {
	for _, s := range stores {
		if s.Start() {
			l.Watch(s, s.Watching())
		}
	}
}

// Watch feeds a store in more namespaces, until they are removed.
func (l *Life) Watch(s *cache.Store, namespaces []string) {
	l.Stores.Go(s.FeedIn(l.Background, namespaces))
}

// ErrUnfilled is why a source cannot be read, or why a controller does not start, if no other error
// is known.
var ErrUnfilled = errors.New("its caches are not synced yet")
