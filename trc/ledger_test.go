package trc_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

var (
	alice = trc.Writer{Controller: "pages", Primary: trc.Key{Namespace: "ns", Name: "alice"}}
	bob   = trc.Writer{Controller: "pages", Primary: trc.Key{Namespace: "ns", Name: "bob"}}
	// namesake is the primary of another controller that has alice's name.
	namesake = trc.Writer{Controller: "books", Primary: alice.Primary}
)

// noted opens a page with edges, each given as its versions.
func noted(l *trc.Ledger, writer trc.Writer, uid types.UID, versions ...[2]string) *trc.Page {
	page := l.Open(writer)
	for _, v := range versions {
		page.Record(trc.Edge{UID: uid, From: v[0], To: v[1]})
	}
	return page
}

func hasEdges(t *testing.T, l *trc.Ledger, want, wantForgotten int) {
	t.Helper()
	if edges, forgotten := l.Len(); edges != want || forgotten != wantForgotten {
		t.Errorf("%d edges, %d forgotten, want %d and %d", edges, forgotten, want, wantForgotten)
	}
}

func TestO1_O2_O3_O4_O8_StepIsOwnIffAPathOfTheWritersEdgesLeadsThere(t *testing.T) {
	l := trc.NewLedger(0)
	noted(l, alice, "u1", [2]string{"", "3"}, [2]string{"3", "5"}, [2]string{"5", "8"}, [2]string{"9", "10"})
	noted(l, alice, "u1", [2]string{"10", "12"}) // on a page of its own
	noted(l, alice, "u2", [2]string{"8", "9"})   // versions of another object
	noted(l, bob, "u1", [2]string{"8", "9"})     // of another primary
	noted(l, namesake, "u1", [2]string{"8", "9"})
	for _, row := range []struct {
		name     string
		writer   trc.Writer
		uid      types.UID
		from, to string
		want     bool
	}{
		{"one edge", alice, "u1", "3", "5", true},
		{"the creation", alice, "u1", "", "3", true},
		{"several edges in one step", alice, "u1", "3", "8", true},
		{"the creation and more in one step", alice, "u1", "", "8", true},
		{"edges of two pages in one step", alice, "u1", "9", "12", true},
		{"a foreign write at the beginning", alice, "u1", "2", "5", false},
		{"a foreign write at the end", alice, "u1", "5", "9", false},
		{"a foreign write in the middle", alice, "u1", "5", "10", false},
		{"a foreign write before the creation was seen", alice, "u1", "", "10", false},
		{"backwards", alice, "u1", "5", "3", false},
		{"no step", alice, "u1", "6", "6", false},
		{"a deletion", alice, "u1", "8", "", false},
		{"a deletion of what was not there", alice, "u1", "", "", false},
		{"the versions of another object", alice, "u2", "3", "5", false},
		{"the writes of another primary", bob, "u1", "3", "5", false},
		{"the writes of another controller for a primary of that name", namesake, "u1", "3", "5", false},
		{"a writer without edges", trc.Writer{}, "u1", "3", "5", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := l.Explains(row.writer, row.uid, row.from, row.to); got != row.want {
				t.Errorf("%q to %q: explained %v, want %v", row.from, row.to, got, row.want)
			}
		})
	}
}

func TestPathsThatPartAreBothFollowed(t *testing.T) {
	l := trc.NewLedger(0)
	// The same creation, sent again after its answer was lost: the server proves only one of them, and
	// either is possible.
	noted(l, alice, "u1", [2]string{"", "3"}, [2]string{"", "4"}, [2]string{"3", "5"}, [2]string{"4", "6"})
	for _, to := range []string{"5", "6"} {
		if !l.Explains(alice, "u1", "", to) {
			t.Errorf("the step to %s is not explained", to)
		}
	}
}

func TestO5_EdgesThatLeadNowhereAreNotRecorded(t *testing.T) {
	l := trc.NewLedger(0)
	page := l.Open(alice)
	page.Record(trc.Edge{UID: "u1", From: "3", To: "3"}) // a no-op
	page.Record(trc.Edge{UID: "u1", From: "3"})
	page.Record(trc.Edge{From: "3", To: "4"})
	hasEdges(t, l, 0, 0)
	page.Record(trc.Edge{UID: "u1", From: "3", To: "5"})
	hasEdges(t, l, 1, 0)
	if !l.Explains(alice, "u1", "3", "5") {
		t.Error("the write after a no-op is not explained")
	}
}

func TestClosingAPageForgetsItsEdgesAndNoOthers(t *testing.T) {
	l := trc.NewLedger(0)
	first := noted(l, alice, "u1", [2]string{"3", "4"}, [2]string{"4", "5"})
	second := noted(l, alice, "u1", [2]string{"5", "6"})
	noted(l, bob, "u1", [2]string{"6", "7"})
	hasEdges(t, l, 4, 0)

	first.Close()
	hasEdges(t, l, 2, 0)
	if l.Explains(alice, "u1", "3", "4") {
		t.Error("an edge outlives its page")
	}
	if !l.Explains(alice, "u1", "5", "6") || !l.Explains(bob, "u1", "6", "7") {
		t.Error("an edge of another page is gone")
	}

	first.Close() // twice is as good as once
	first.Record(trc.Edge{UID: "u1", From: "7", To: "8"})
	hasEdges(t, l, 2, 0)
	second.Close()
	hasEdges(t, l, 1, 0)
}

func TestO15_AFullLedgerForgetsTheOldestEdges(t *testing.T) {
	l := trc.NewLedger(3)
	old := noted(l, alice, "u1", [2]string{"1", "2"}, [2]string{"2", "3"})
	noted(l, bob, "u2", [2]string{"4", "5"})
	hasEdges(t, l, 3, 0)

	other := noted(l, namesake, "u3", [2]string{"6", "7"})
	hasEdges(t, l, 3, 1)
	if l.Explains(alice, "u1", "1", "2") || !l.Explains(alice, "u1", "2", "3") {
		t.Error("it was not the oldest edge that was forgotten")
	}
	other.Record(trc.Edge{UID: "u3", From: "7", To: "8"})
	hasEdges(t, l, 3, 2)
	if l.Explains(alice, "u1", "2", "3") || !l.Explains(bob, "u2", "4", "5") || !l.Explains(namesake, "u3", "6", "8") {
		t.Error("it was not the oldest page that gave way")
	}

	old.Record(trc.Edge{UID: "u1", From: "3", To: "9"}) // emptied, not closed: now it is the newest
	hasEdges(t, l, 3, 3)
	if !l.Explains(alice, "u1", "3", "9") || l.Explains(bob, "u2", "4", "5") {
		t.Error("a page that was emptied does not take edges as a new one would")
	}
}

func TestForgetDropsAllEdgesButNoPage(t *testing.T) {
	l := trc.NewLedger(0)
	page := noted(l, alice, "u1", [2]string{"1", "2"})
	noted(l, bob, "u1", [2]string{"2", "3"})
	l.Forget()
	hasEdges(t, l, 0, 0)
	if l.Explains(alice, "u1", "1", "2") {
		t.Error("an edge outlives Forget")
	}
	page.Record(trc.Edge{UID: "u1", From: "7", To: "8"})
	hasEdges(t, l, 1, 0)
	page.Close()
	hasEdges(t, l, 0, 0)
}

// naivePage is a page as the oracle of the ledger keeps it.
type naivePage struct {
	*trc.Page
	writer trc.Writer
	closed bool
}

// naiveEdge is an edge with its page, in the order of the pages' first edges.
type naiveEdge struct {
	trc.Edge
	page *naivePage
}

// naiveLedger is all edges in one slice, those of a page together.
type naiveLedger []naiveEdge

func (n naiveLedger) record(page *naivePage, edge trc.Edge, limit int) naiveLedger {
	at := len(n)
	for i, other := range n {
		if other.page == page {
			at = i + 1
		}
	}
	n = slices.Insert(n, at, naiveEdge{edge, page})
	return n[max(0, len(n)-limit):]
}

func (n naiveLedger) explains(writer trc.Writer, uid types.UID, from, to string) bool {
	return slices.ContainsFunc(n, func(e naiveEdge) bool {
		return e.page.writer == writer && e.UID == uid && e.From == from && (e.To == to || n.explains(writer, uid, e.To, to))
	})
}

func TestModel_O15_TheLedgerIsABoundedListOfEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		l, naive, pages := trc.NewLedger(limit), naiveLedger{}, []*naivePage{}
		version := func(label string) int { return rapid.IntRange(0, 5).Draw(t, label) }
		writer := func() trc.Writer {
			return rapid.SampledFrom([]trc.Writer{alice, bob, namesake}).Draw(t, "writer")
		}
		name := func(version int) string {
			if version == 0 {
				return ""
			}
			return strconv.Itoa(version)
		}
		page := func() *naivePage {
			if len(pages) == 0 || rapid.IntRange(0, 3).Draw(t, "new page") == 0 {
				w := writer()
				pages = append(pages, &naivePage{Page: l.Open(w), writer: w})
			}
			return rapid.SampledFrom(pages).Draw(t, "page")
		}
		uid := func() types.UID { return rapid.SampledFrom([]types.UID{"u1", "u2"}).Draw(t, "uid") }
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				p, from := page(), version("from")
				edge := trc.Edge{UID: uid(), From: name(from), To: name(from + version("further"))}
				p.Record(edge)
				if !p.closed && edge.From != edge.To {
					naive = naive.record(p, edge, limit)
				}
			},
			"close": func(*rapid.T) {
				p := page()
				p.Close()
				p.closed = true
				naive = slices.DeleteFunc(naive, func(e naiveEdge) bool { return e.page == p })
			},
			"forget an object": func(*rapid.T) {
				p, u := page(), uid()
				p.Forget(u)
				naive = slices.DeleteFunc(naive, func(e naiveEdge) bool { return e.page == p && e.UID == u })
			},
			"forget": func(*rapid.T) {
				l.Forget()
				naive = nil
			},
			"": func(t *rapid.T) {
				if edges, _ := l.Len(); edges != len(naive) {
					t.Fatalf("%d edges, want %d", edges, len(naive))
				}
				w, u, from, to := writer(), uid(), name(version("from")), name(version("to"))
				if got, want := l.Explains(w, u, from, to), to != "" && naive.explains(w, u, from, to); got != want {
					t.Fatalf("%v %s %q to %q: explained %v, want %v", w, u, from, to, got, want)
				}
			},
		})
	})
}

func TestG16_NothingIsLeftOfManyRunsAtOnce(t *testing.T) {
	l := trc.NewLedger(50)
	var runs sync.WaitGroup
	for worker := range 8 {
		runs.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 0))
			writer := trc.Writer{Controller: "pages", Primary: trc.Key{Name: strconv.Itoa(worker / 2)}}
			uid := types.UID(strconv.Itoa(worker))
			for range 500 {
				page := l.Open(writer)
				last := random.IntN(20)
				for version := range last {
					page.Record(trc.Edge{UID: uid, From: strconv.Itoa(version), To: strconv.Itoa(version + 1)})
				}
				if l.Explains(writer, uid, "0", strconv.Itoa(last+1)) {
					t.Error("a version is reached that nobody wrote")
				}
				page.Close()
			}
		})
	}
	runs.Go(func() {
		for range 100 {
			l.Forget()
			if edges, _ := l.Len(); edges > 50 {
				t.Errorf("%d edges are more than the limit", edges)
			}
		}
	})
	runs.Wait()
	if edges, _ := l.Len(); edges != 0 {
		t.Errorf("%d edges are left", edges)
	}
}
