package write

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// errRemoved refuses what no cache would show.
var errRemoved = errors.New("framework: no secondary is in that cluster any more; if one was added since, ask for a new writer")

// At is what the run writes to a cluster through.
func (w *Writer) At(c *Port) *Writer {
	if c == w.Port {
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, far := range w.far {
		if far.Port == c {
			return far
		}
	}
	// No kind is the primary's there.
	far := &Writer{Config: &Config{Port: c, FieldManager: w.FieldManager, Mode: w.Mode}, home: w, Run: w.Run, Term: w.Term}
	w.far = append(w.far, far)
	return far
}

// Home is what the run writes to the operator's own cluster through: it keeps what is the run's as a whole.
func (w *Writer) Home() *Writer {
	if w.home != nil {
		return w.home
	}
	return w
}

// checkPlace refuses an object that was read from another cluster. In a request it would seem to be gone, or replaced.
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
