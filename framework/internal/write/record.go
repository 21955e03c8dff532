package write

import (
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// recordRequest records a request of the run, and returns its number, from 1. It returns 0 if the
// run is not recorded.
func (w *Writer) recordRequest(q Request) int {
	w = w.Home()
	if !w.Recording {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, timeline.Request{Text: q.describe()})
	return len(w.requests)
}

// recordProof records what an answer proved.
func (w *Writer) recordProof(got client.Answer, proof trc.Proof) {
	if got.Noted == 0 {
		return
	}
	what := timeline.Followed
	switch {
	case proof.Created:
		what = timeline.Created
	case proof.Base == got.GetResourceVersion():
		what = timeline.Unchanged
	}
	w = w.Home()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[got.Noted-1].Proof = what
}

// RecordReads counts the objects of a read that are newer than the watch has delivered.
func (w *Writer) RecordReads(store *trc.Store, read ...trc.Object) {
	if !w.Recording {
		return
	}
	for _, o := range read {
		if store.AheadOf(trc.KeyOf(o)) {
			w.ReadsAhead.Add(1)
		}
	}
}
