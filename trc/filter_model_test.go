package trc_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/trc"
)

// TestFilter_G01_G02_G03_G04_G05_G14_G16 drives the stores, the ledger, the informers and the rule
// of own causes with random histories of a small API server: parties whose runs read, write and
// meet foreign writes, lost and late answers, gaps in the watches, slow subscribers. An oracle with
// the whole history checks every step, and the state when everything has come to rest.
func TestFilter_G01_G02_G03_G04_G05_G14_G16(t *testing.T) {
	n := depth.Of(40, 350, 40_000)
	steps, runs := 0, 0
	for range n {
		rapid.Check(t, filterHistory(&steps, &runs))
	}
	t.Logf("%d steps, %d runs", steps, runs)
}

// FuzzFilter plays the same histories as the fuzzer wants them.
func FuzzFilter(f *testing.F) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		bytes := make([]byte, 10_000)
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		f.Add(bytes)
	}
	var steps, runs int
	f.Fuzz(rapid.MakeFuzz(filterHistory(&steps, &runs)))
}

func filterHistory(steps, runs *int) func(*rapid.T) {
	return func(t *rapid.T) {
		m := newFilterModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":     func(*rapid.T) { m.check() },
			"step": func(*rapid.T) { m.step() },
		})
		m.settle()
		*steps += m.steps
		*runs += m.runs
	}
}

// filterModel is one history.
type filterModel struct {
	t       *rapid.T
	etcd    *etcd
	stores  []*reads
	ledger  *trc.Ledger
	parties []*party
	closing []*trc.Page // of runs that are decided
	zombies []zombie
	late    map[step]bool // steps that were emitted as late

	// The features of this history.
	keys      int
	verbs     []verb
	changes   []change
	foreign   bool // others write too
	gaps      bool // watches may be interrupted
	losses    bool // requests and answers may be lost
	slow      bool // subscribers may be slow
	forgetful bool // the ledger is small

	enabled  []action
	depth    int // of subscribers that are slow at the moment
	settling bool
	steps    int
	runs     int
	trace    []line
}

type line struct {
	format string
	args   []any
}

func (m *filterModel) say(format string, args ...any) {
	m.trace = append(m.trace, line{format, args})
}

func (m *filterModel) fail(format string, args ...any) {
	var b strings.Builder
	for _, l := range m.trace {
		fmt.Fprintf(&b, l.format+"\n", l.args...)
	}
	m.t.Fatalf("%s"+format, append([]any{b.String()}, args...)...)
}

func (p *party) String() string { return p.controller.name + "/" + p.writer.Primary.Name }

// picks draw without a preference for small numbers.
var picks = func() (picks [64]*rapid.Generator[int]) {
	for n := 1; n < len(picks); n++ {
		numbers := make([]int, n)
		for i := range numbers {
			numbers[i] = i
		}
		picks[n] = rapid.SampledFrom(numbers)
	}
	return picks
}()

func (m *filterModel) pick(n int, what string) int {
	if n == 1 {
		return 0
	}
	return picks[n].Draw(m.t, what)
}

func (m *filterModel) flip(what string) bool { return m.pick(2, what) == 1 }

func newFilterModel(t *rapid.T) *filterModel {
	m := &filterModel{t: t, etcd: &etcd{}, late: map[step]bool{}}
	m.keys = 1 + m.pick(3, "keys")
	m.foreign, m.gaps, m.losses, m.slow = m.pick(4, "foreign") > 0, m.flip("gaps"), m.pick(3, "losses") == 0, m.flip("slow")
	m.forgetful = m.pick(8, "forgetful") == 1
	limit := 0
	if m.forgetful {
		limit = 1 + m.pick(2, "limit")
	}
	m.ledger = trc.NewLedger(limit)
	m.addStores()
	m.addParties()
	// Each history is about some kinds of writes only, so that these meet more often.
	for v := conditionally; v < looks; v++ {
		if m.flip(verbNames[v]) {
			m.verbs = append(m.verbs, v)
		}
	}
	if len(m.verbs) == 0 {
		m.verbs = []verb{conditionally}
	}
	for c := nothing; c < remap; c++ {
		if m.flip("change") {
			m.changes = append(m.changes, c)
		}
	}
	m.changes = append(m.changes, touch)
	if m.flip("remap") {
		m.changes = append(m.changes, remap, remap)
	}
	for key := range m.keys {
		if m.flip("there") {
			m.etcd.create(foreign, key, state{parties: uint8(1 + m.pick(7, "parties")), finalizer: m.pick(4, "finalizer") == 0})
		}
	}
	m.etcd.commit(foreign, false, elsewhere, state{})
	for _, f := range m.stores {
		for _, w := range f.watches {
			if m.pick(8, "unlisted") > 0 {
				m.must(f.list(w, m.etcd.version()))
			}
		}
	}
	return m
}

func (m *filterModel) addStores() {
	m.stores = []*reads{newReads(m.etcd, "all", m.pick(4, "selector") == 0, "")}
	switch m.pick(4, "second store") {
	case 1:
		m.stores = append(m.stores, newReads(m.etcd, "selected", true, ""))
	case 2:
		m.stores = append(m.stores, newReads(m.etcd, "each", m.flip("selector"), "one", "two"))
	case 3:
		m.stores = append(m.stores, newReads(m.etcd, "one", m.flip("selector"), "one"))
	}
	for _, f := range m.stores {
		f.Subscribe(m.dawdle)
	}
}

// addParties adds two controllers, which both have a primary named p, and one also q.
func (m *filterModel) addParties() {
	for i, name := range []string{"x", "y"} {
		c := &controller{
			model: m, name: name, from: m.stores[m.pick(len(m.stores), "from")],
			filter: []string{"", "", "generation", "field", "strict"}[m.pick(5, "filter")],
		}
		for j, primary := range []string{"p", "q"}[:2-i] {
			p := &party{index: 2*i + j, controller: c, due: true, writer: trc.Writer{Controller: name, Primary: trc.Key{Name: primary}}}
			c.parties = append(c.parties, p)
		}
		m.parties = append(m.parties, c.parties...)
		options := eventsource.InformerOptions{
			Name: name, Kind: "Thing",
			Map: func(o trc.Object) []trc.Key {
				var keys []trc.Key
				for _, p := range c.parties {
					if o.(*thing).mapsTo(p.index) {
						keys = append(keys, p.writer.Primary)
					}
				}
				return keys
			},
		}
		if c.filter != "" {
			options.Filter = func(old, new trc.Object) bool { return c.passes(stateOf(old), stateOf(new)) }
		}
		c.informer = eventsource.NewInformer(c.from.Store, options)
		_, err := c.informer.Start(c)
		m.must(err)
	}
	for _, f := range m.stores {
		f.Subscribe(func(t trc.Transition) { m.told(f, t) })
	}
}

func (m *filterModel) must(err error) {
	if err != nil {
		m.fail("%v", err)
	}
}

// dawdle is a subscriber that may be slow: the world goes on before the others hear of a
// transition.
func (m *filterModel) dawdle(t trc.Transition) {
	if t.Late {
		m.late[stepBetween(t.Old, t.New)] = true
	}
	if !m.slow || m.settling || m.depth == 2 || m.pick(8, "slow") > 0 {
		return
	}
	m.depth++
	m.say("(slow")
	for range 1 + m.pick(4, "meanwhile") {
		m.step()
		m.check()
	}
	m.say(")")
	m.depth--
}

// settle lets everything arrive, in one of four ways.
func (m *filterModel) settle() {
	m.settling = true
	byList, watchFirst := m.gaps && m.flip("by list"), m.flip("watch first")
	m.say("settling, by list %v, watch first %v", byList, watchFirst)
	for range 20 {
		if watchFirst {
			m.catchUp(byList)
		}
		for _, p := range m.parties {
			for len(p.requests) > 0 {
				q := p.requests[0]
				if q.stage == prepared {
					m.serve(p.index, q)
				}
				m.respond(p, q)
			}
		}
		m.catchUp(byList)
		busy := false
		for _, p := range m.parties {
			if p.running() {
				m.end(p)
			}
			if p.due {
				busy = true
				m.start(p)
			}
		}
		for len(m.closing) > 0 {
			m.closeFirst()
		}
		m.check()
		if !busy {
			m.settled()
			return
		}
	}
	m.fail("G05: the parties do not come to rest")
}

func (m *filterModel) closeFirst() {
	page := m.closing[0]
	m.closing = slices.Delete(m.closing, 0, 1)
	m.close(page)
}

// catchUp lets the watches deliver all there is.
func (m *filterModel) catchUp(byList bool) {
	for _, f := range m.stores {
		for _, w := range f.watches {
			if w.progress == 0 || byList {
				m.must(f.list(w, m.etcd.version()))
			}
			for r := f.next(w); r != nil; r = f.next(w) {
				m.must(f.deliver(w, *r))
				m.check()
			}
			m.must(f.mark(w, m.etcd.version()))
		}
	}
}
