package trc

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultLedgerLimit is the default number of edges that a [Ledger] keeps: some 6 MB.
const DefaultLedgerLimit = 1 << 16

// Writer identifies who wrote: the controller, and the primary whose run it was.
type Writer struct {
	Controller string
	Primary    Key
}

// Edge is an own write for which the server has proven that nothing came between From and To. It
// changed the object with that UID from version From (empty: the object did not exist) to version
// To.
type Edge struct {
	UID      types.UID
	From, To string
}

// Ledger holds the proven own writes of the runs whose causes are not decided yet. Create it with
// [NewLedger]. One serves all stores of a cluster, because UIDs are unique.
//
// Invariant: a forgotten edge can only make an own step count as foreign, which costs a run.
// Nothing makes a foreign step count as own.
type Ledger struct {
	limit int

	mu            sync.Mutex // guards the fields below and the pages; a leaf
	pages         map[Writer][]*Page
	oldest        *Page // of all pages with edges, in the order of their first edges
	newest        *Page
	edges         int
	forgottenFull int
}

// Page holds the edges of one run. It is closed when the causes of that run are decided.
type Page struct {
	ledger         *Ledger
	writer         Writer
	edges          map[types.UID][]Edge // oldest first; no empty slices
	order          []types.UID          // the objects of the edges, oldest edge first
	closed         bool
	previous, next *Page // among the pages with edges
}

// NewLedger returns an empty ledger that keeps at most limit edges (≤ 0: [DefaultLedgerLimit]). It
// forgets the oldest edges beyond that.
func NewLedger(limit int) *Ledger {
	if limit <= 0 {
		limit = DefaultLedgerLimit
	}
	return &Ledger{limit: limit, pages: map[Writer][]*Page{}}
}

// Open begins a page for a run. It costs nothing until something is recorded.
func (l *Ledger) Open(writer Writer) *Page { return &Page{ledger: l, writer: writer} }

// Record records a proven write. It must be called before the answer is acknowledged to a store, so
// that the transition is explained when the store emits it. An edge that changes nothing is
// dropped, and so is one on a closed page.
func (p *Page) Record(edge Edge) {
	if edge.From == edge.To || edge.UID == "" || edge.To == "" {
		return
	}
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.closed {
		return
	}
	if len(p.order) == 0 {
		l.linkLocked(p)
	}
	if p.edges == nil {
		p.edges = map[types.UID][]Edge{}
	}
	p.edges[edge.UID] = append(p.edges[edge.UID], edge)
	p.order = append(p.order, edge.UID)
	l.edges++
	for l.edges > l.limit {
		l.forgetOldestLocked()
	}
}

// Forget forgets the edges of an object: its steps count as foreign from now on. Call it if a cache
// could not show what the writer wrote: the event that brings it is news.
func (p *Page) Forget(uid types.UID) {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p.edges[uid]) == 0 {
		return
	}
	l.edges -= len(p.edges[uid])
	delete(p.edges, uid)
	p.order = slices.DeleteFunc(p.order, func(of types.UID) bool { return of == uid })
	if len(p.order) == 0 {
		l.unlinkLocked(p)
	}
}

// Close forgets the edges of the page.
func (p *Page) Close() {
	l := p.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	p.closed = true
	l.clearLocked(p)
}

// Explains reports whether an object went from one version (empty: it did not exist) to another by
// the writer's own proven writes alone.
func (l *Ledger) Explains(writer Writer, uid types.UID, from, to string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	pages := l.pages[writer]
	if len(pages) == 0 || to == "" {
		return false
	}
	// A path of edges. They are few, and each leads from an older to a newer version: no cycles.
	reached := []string{from}
	for len(reached) > 0 {
		at := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		for _, page := range pages {
			for _, edge := range page.edges[uid] {
				if edge.From != at {
					continue
				}
				if edge.To == to {
					return true
				}
				reached = append(reached, edge.To)
			}
		}
	}
	return false
}

// Forget drops all edges. Call it when the server has gone back in time: the proven writes no
// longer exist.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.oldest != nil {
		l.clearLocked(l.oldest)
	}
}

// Len returns the number of edges, and how many edges were forgotten so far because the ledger was
// full.
func (l *Ledger) Len() (edges, forgotten int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.edges, l.forgottenFull
}

func (l *Ledger) forgetOldestLocked() {
	page := l.oldest
	l.edges--
	l.forgottenFull++
	uid := page.order[0]
	page.order = page.order[1:]
	if page.edges[uid] = page.edges[uid][1:]; len(page.edges[uid]) == 0 {
		delete(page.edges, uid)
	}
	if len(page.order) == 0 {
		l.unlinkLocked(page)
	}
}

func (l *Ledger) clearLocked(page *Page) {
	if len(page.order) == 0 {
		return
	}
	l.edges -= len(page.order)
	page.edges, page.order = nil, nil
	l.unlinkLocked(page)
}

// linkLocked adds a page with its first edge.
func (l *Ledger) linkLocked(page *Page) {
	l.pages[page.writer] = append(l.pages[page.writer], page)
	page.previous = l.newest
	if l.newest != nil {
		l.newest.next = page
	} else {
		l.oldest = page
	}
	l.newest = page
}

// unlinkLocked removes a page that has no edges left.
func (l *Ledger) unlinkLocked(page *Page) {
	others := l.pages[page.writer][:0:0]
	for _, other := range l.pages[page.writer] {
		if other != page {
			others = append(others, other)
		}
	}
	if l.pages[page.writer] = others; len(others) == 0 {
		delete(l.pages, page.writer)
	}
	if page.previous != nil {
		page.previous.next = page.next
	} else {
		l.oldest = page.next
	}
	if page.next != nil {
		page.next.previous = page.previous
	} else {
		l.newest = page.previous
	}
	page.previous, page.next = nil, nil
}
