package why

import (
	"container/list"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/timeline"
)

// Defaults of a zero [Options].
const (
	DefaultBytes      = 8 << 20
	DefaultPerPrimary = 10
)

// Options configures [Pages]. The zero value of each field is its documented default.
type Options struct {
	// Bytes bounds the memory that all records take, as estimated. Default: [DefaultBytes], 8 MiB. A
	// record of a run with one cause and no write takes about 700 bytes.
	Bytes int
	// PerPrimary is how many of its newest runs are kept of each primary. Default:
	// [DefaultPerPrimary].
	PerPrimary int
}

// Operator is what is shown besides runs: a framework.Operator. No method makes a request.
type Operator interface {
	Ready() error
	Occupancy() health.Occupancy
	Health() []health.Source
}

// Pages keeps and shows the newest runs of one operator. They are an [observe.Observer].
type Pages struct {
	store    store
	operator atomic.Pointer[Operator]
}

var _ observe.FieldObserver = (*Pages)(nil)

// New returns pages for the Observers of an operator's options, or an error that names a bad
// option. Call [Pages.Of] with the operator next.
func New(o Options) (*Pages, error) {
	var errs []error
	for field, value := range map[string]int{"Bytes": o.Bytes, "PerPrimary": o.PerPrimary} {
		if value < 0 {
			errs = append(errs, fmt.Errorf("why: Options: %s %d: must not be negative", field, value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.PerPrimary == 0 {
		o.PerPrimary = DefaultPerPrimary
	}
	return &Pages{store: store{limit: o.Bytes, each: o.PerPrimary, byID: map[id][]*list.Element{}}}, nil
}

// Of sets the operator that is shown. Without it there are only runs.
func (p *Pages) Of(op Operator) { p.operator.Store(&op) }

// RunEnded keeps the record of a run.
func (p *Pages) RunEnded(controller string, primary types.NamespacedName, r timeline.Record) {
	p.store.add(id{controller, primary}, r)
}

// WantsFields returns true: the pages show which fields have changed.
func (*Pages) WantsFields() bool { return true }

// Handler serves the pages below [Root].
func (p *Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root+"{$}", p.overview)
	mux.HandleFunc("GET "+Root+"events", p.events)
	mux.HandleFunc("GET "+Root+"{controller}", p.controller)
	mux.HandleFunc("GET "+Root+"{controller}/{namespace}/{name}", p.primary)
	return mux
}

// Root is the path of the pages.
const Root = "/debug/evenkeel/"
