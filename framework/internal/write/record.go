package write

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Record is what is kept of the requests and reads of a run: for people, and to find loops. The
// zero value records only unproven writes.
type Record struct {
	// On says that requests and reads are recorded. It is set before the run begins.
	On bool
	// ReadsAhead counts the objects that reads returned newer than the watch has delivered.
	ReadsAhead atomic.Int32

	mu       sync.Mutex // guards everything below; a leaf
	requests []timeline.Request
	// unproven are the writes without a proof, which may make the primary due again.
	unproven []Unproven
	fights   []timeline.Fight
	told     bool // one of the fights should be told of
}

// request records a request of the run, and returns its number, from 1. It returns 0 if the run is
// not recorded.
func (r *Record) request(q *Request) int {
	if !r.On {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, timeline.Request{Text: q.describe(), Verb: q.verb})
	return len(r.requests)
}

// proof records what an answer proved.
func (r *Record) proof(got client.Answer, proof trc.Proof) {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[got.Noted-1].Proof = what
}

// list returns the requests. growing says that some may still be recorded.
func (r *Record) list(growing bool) []timeline.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if growing {
		return slices.Clone(r.requests)
	}
	return slices.Clip(r.requests)
}

// Reads counts the objects of a read that are newer than the watch has delivered.
func (r *Record) Reads(store *trc.Store, read ...trc.Object) {
	if !r.On {
		return
	}
	for _, o := range read {
		if store.AheadOf(trc.KeyOf(o)) {
			r.ReadsAhead.Add(1)
		}
	}
}

// maxUnproven is how many unproven writes of a run are remembered.
const maxUnproven = 1024

// Unproven is a write without a proof.
type Unproven struct {
	UID     types.UID // of the written object
	Version string    // after the write; empty if the object was deleted
	What    string    // the request, for the log
}

// wrote records a write without a proof.
func (r *Record) wrote(what Unproven) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unproven) < maxUnproven {
		r.unproven = append(r.unproven, what)
	}
}

// Unproven returns the run's writes without a proof.
func (r *Record) Unproven() []Unproven {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unproven
}

// answers is what the answers to one writer have proven and changed. The zero value is ready for
// use.
type answers struct {
	mu   sync.Mutex // guards everything below; a leaf
	page *trc.Page  // the proven writes; nil until there is one
	// kinds are those whose caches were changed by an answer.
	kinds map[schema.GroupKind]bool
}

// prove records an edge in the ledger.
func (a *answers) prove(in *trc.Ledger, by trc.Writer, edge trc.Edge) {
	a.mu.Lock()
	if a.page == nil {
		a.page = in.Open(by)
	}
	page := a.page
	a.mu.Unlock()
	page.Record(edge)
}

// doubt forgets what was proven about an object that a cache could not show.
func (a *answers) doubt(uid types.UID) {
	a.mu.Lock()
	page := a.page
	a.mu.Unlock()
	if page != nil {
		page.Forget(uid)
	}
}

// mark records that the caches of a kind are about to be changed by an answer.
func (a *answers) mark(gvk schema.GroupVersionKind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds == nil {
		a.kinds = map[schema.GroupKind]bool{}
	}
	a.kinds[gvk.GroupKind()] = true
}

// appendStores appends the caches that answers were added to.
func (a *answers) appendStores(stores []*cache.Store, of *Port) []*cache.Store {
	a.mu.Lock()
	kinds := slices.Collect(maps.Keys(a.kinds))
	a.mu.Unlock()
	for _, kind := range kinds {
		stores = append(stores, of.StoresOfKind(kind)...)
	}
	return stores
}

// appendPage appends the page of proven writes, if there is one.
func (a *answers) appendPage(pages []*trc.Page) []*trc.Page {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.page != nil {
		pages = append(pages, a.page)
	}
	return pages
}
