package write

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// errRemoved is the error of writes to a cluster that is no longer watched: no cache would show
// them.
var errRemoved = errors.New("framework: no secondary is in that cluster any more; if one was added since, ask for a new writer")

// At returns the run's writer to a cluster.
func (w *Writer) At(c *Port) *Writer {
	if c == w.Port {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, remote := range w.remotes {
		if remote.Port == c {
			return remote
		}
	}
	// In another cluster, no kind is the kind of the primaries.
	remote := &Writer{Config: &Config{Port: c, FieldManager: w.FieldManager, Mode: w.Mode}, local: w, Run: w.Run, Term: w.Term}
	w.remotes = append(w.remotes, remote)
	return remote
}

// Home returns the run's writer to the local cluster. It keeps the state of the run as a whole.
func (w *Writer) Home() *Writer {
	if w.local != nil {
		return w.local
	}
	return w
}

// checkPlace refuses an object that was read from another cluster. For a request it would seem to
// be deleted or replaced.
func (c *Port) checkPlace(r *client.Client, key trc.Key, uid types.UID) error {
	if uid == "" {
		return nil
	}
	for _, other := range c.Others() {
		if other != c && other.Shows(r.GVK, key, uid) && !c.Shows(r.GVK, key, uid) {
			return fmt.Errorf("framework: %s: it is an object of another cluster%s: Secondary.In writes to that of its secondaries, a Context to the operator's own", r.Describe(key), other.Place())
		}
	}
	return nil
}
