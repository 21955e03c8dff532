package write

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// keyLocks let applies to one object pass one at a time. The zero value is ready.
//
// Invariant: an object is in the map exactly while somebody is in its lane or waits for it.
type keyLocks struct {
	mu    sync.Mutex // guards the map and the counts; a leaf
	locks map[objectKey]*turn
}

type objectKey struct {
	schema.GroupKind
	key trc.Key
}

type turn struct {
	free chan struct{} // holds one token while nobody is in
	here int           // who is in or waits
}

// enter waits for the lane; leave must be called once.
func (l *keyLocks) enter(ctx context.Context, of objectKey) (leave func(), err error) {
	l.mu.Lock()
	t := l.locks[of]
	if t == nil {
		if l.locks == nil {
			l.locks = map[objectKey]*turn{}
		}
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		l.locks[of] = t
	}
	t.here++
	l.mu.Unlock()
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; l.quit(of, t) }, nil
	case <-ctx.Done():
		l.quit(of, t)
		return nil, context.Cause(ctx)
	}
}

func (l *keyLocks) quit(of objectKey, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.here--; t.here == 0 {
		delete(l.locks, of)
	}
}

func (l *keyLocks) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.locks)
}
