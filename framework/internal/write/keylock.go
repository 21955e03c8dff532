package write

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// keyLocks let one apply at a time write to an object. The zero value is ready for use.
//
// Invariant: an object is in the map exactly while somebody holds its lock or waits for it.
type keyLocks struct {
	mu    sync.Mutex // guards the map and the counts; a leaf
	locks map[objectKey]*turn
}

// objectKey identifies an object of one API server.
type objectKey struct {
	schema.GroupKind
	key trc.Key
}

// turn is the lock of one object.
type turn struct {
	free chan struct{} // holds one token while the lock is free
	here int           // how many hold the lock or wait for it
}

// enter waits for the lock of an object. leave must be called exactly once.
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

// quit gives up the lock, or the wait for it.
func (l *keyLocks) quit(of objectKey, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.here--; t.here == 0 {
		delete(l.locks, of)
	}
}

// Len returns the number of objects whose locks are held.
func (l *keyLocks) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.locks)
}
