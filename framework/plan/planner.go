package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/timeline"
)

// maxTries is how often the run of a primary is repeated because it had no effect, or waits for a
// source.
const maxTries = 10

// Writer is what would make a change: the run of a primary. Both are empty for code of the author's
// that runs outside of runs.
type Writer struct {
	Controller string `json:"controller"`
	// Primary is the primary's namespace/name, or its name if it is cluster-scoped.
	Primary string `json:"primary"`
}

// String returns the controller and the primary.
func (w Writer) String() string {
	if w == (Writer{}) {
		return "outside of runs"
	}
	return w.Controller + " " + w.Primary
}

func compareWriters(a, b Writer) int {
	return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Primary, b.Primary))
}

// planner holds the runs of one operator to one for each primary, and its requests to dry runs.
type planner struct {
	overlay overlay
	local   string        // the local cluster, as in identity
	changed chan struct{} // receives when the progress has changed

	mu          sync.Mutex // guards everything below; a leaf
	over        bool       // the plan has ended: what happens to runs since does not count
	order       []string   // the controllers' names
	controllers map[string]*controller
	failures    []Failure
	refused     []Refusal
	externals   []External
	events      int
}

// controller is the progress of one controller.
type controller struct {
	due    map[types.NamespacedName]*primary
	done   int
	exists func(types.NamespacedName) bool
}

// primary is a primary that is to have a run.
type primary struct {
	tries         int
	running, done bool
}

var _ planning.Plan = (*planner)(nil)

func newPlanner() *planner {
	return &planner{changed: make(chan struct{}, 1), controllers: map[string]*controller{}, overlay: overlay{entries: map[identity]*entry{}}}
}

// setLocal records which cluster is the operator's own.
func (p *planner) setLocal(config *rest.Config) error {
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	p.local = at.Host + strings.TrimSuffix(at.Path, "/")
	return nil
}

// RunEnded does nothing: it makes the planner an observer, which sees the requests.
func (p *planner) RunEnded(string, types.NamespacedName, timeline.Record) {}

// Expects implements [planning.Plan].
func (p *planner) Expects(controllers []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order = controllers
}

// Starts implements [planning.Plan].
func (p *planner) Starts(name string, due []types.NamespacedName, exists func(types.NamespacedName) bool) {
	p.mu.Lock()
	c := &controller{due: map[types.NamespacedName]*primary{}, exists: exists}
	for _, key := range due {
		c.due[key] = &primary{}
	}
	p.controllers[name] = c
	p.mu.Unlock()
	p.tell()
}

// end ends the plan.
func (p *planner) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// tell tells that the progress has changed.
func (p *planner) tell() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

type runKey struct{}

// Begins implements [planning.Plan].
func (p *planner) Begins(ctx context.Context, name string, key types.NamespacedName) (context.Context, planning.Ends) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.controllers[name]
	if c == nil || c.due[key] == nil || c.due[key].done || p.over {
		return ctx, nil
	}
	of := c.due[key]
	of.running = true
	of.tries++
	by := Writer{Controller: name, Primary: strings.TrimPrefix(key.String(), "/")}
	return context.WithValue(ctx, runKey{}, by), func(failure error, again bool) { p.ended(c, of, by, failure, again) }
}

func (p *planner) ended(c *controller, of *primary, by Writer, failure error, again bool) {
	p.mu.Lock()
	of.running = false
	if p.over {
		p.mu.Unlock()
		return
	}
	if failure == nil && again && of.tries >= maxTries {
		failure = fmt.Errorf("%d runs had no effect, because others change the same objects or a source is not filled", of.tries)
	}
	if failure != nil || !again {
		of.done = true
		c.done++
	}
	if failure != nil {
		p.failures = append(p.failures, Failure{Writer: by, Error: failure.Error()})
	}
	p.mu.Unlock()
	p.tell()
}

// writerOf returns whose request has that context, and whether it is that of a run.
func writerOf(ctx context.Context) (by Writer, isRun bool) {
	by, isRun = ctx.Value(runKey{}).(Writer)
	return by, isRun
}

// Withhold implements [planning.Plan].
func (p *planner) Withhold(ctx context.Context, what string) {
	by, _ := writerOf(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.externals = append(p.externals, External{Writer: by, What: what})
}

// Refuse implements [planning.Plan].
func (p *planner) Refuse(ctx context.Context, what string) error {
	by, _ := writerOf(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if refusal := (Refusal{Writer: by, What: what}); !slices.Contains(p.refused, refusal) {
		p.refused = append(p.refused, refusal)
	}
	return fmt.Errorf("plan: %s: it cannot be planned; nothing was sent", what)
}

// dropEvent counts an event that is not sent.
func (p *planner) dropEvent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
}

// dropGone marks primaries as done that others have deleted before their run.
func (p *planner) dropGone() {
	for name, keys := range p.waiting() {
		for _, key := range keys {
			p.mu.Lock()
			c := p.controllers[name]
			p.mu.Unlock()
			if c.exists(key) { // takes locks of the caches
				continue
			}
			p.mu.Lock()
			if of := c.due[key]; !of.running && !of.done {
				of.done = true
				c.done++
			}
			p.mu.Unlock()
			p.tell()
		}
	}
}

// waiting returns the primaries that had no run, by controller.
func (p *planner) waiting() map[string][]types.NamespacedName {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := map[string][]types.NamespacedName{}
	for name, c := range p.controllers {
		for key, of := range c.due {
			if !of.done && !of.running {
				waiting[name] = append(waiting[name], key)
			}
		}
	}
	return waiting
}

func (p *planner) progress() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	var progress Progress
	for _, name := range p.order {
		of := ControllerProgress{Controller: name}
		if c := p.controllers[name]; c != nil {
			of.Started, of.Done, of.Total = true, c.done, len(c.due)
		}
		progress = append(progress, of)
	}
	return progress
}

// complete reports whether all primaries had their run.
func (p *planner) complete() bool {
	progress := p.progress()
	return len(progress) > 0 && !slices.ContainsFunc(progress, func(c ControllerProgress) bool { return !c.Started || c.Done < c.Total })
}
