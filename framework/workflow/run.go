package workflow

import (
	"context"
	"sync"
	"time"
)

// run is the shell around the machine: the goroutines of a pass. The first one is the caller's, so
// that a graph without branches needs no others.
type run struct {
	ctx   context.Context
	visit func(task) outcome

	mu       sync.Mutex // guards the fields below; a leaf
	core     machine
	workers  int       // the number of goroutines, including the caller's
	starting int       // how many of them are about to take a turn
	waiting  bool      // the caller waits for the others
	wake     sync.Cond // signalled when there is work for the caller, or the others have ended
}

// pass runs one pass through the graph.
func (g *Graph[C]) pass(ctx context.Context, c C, pass Pass) *Result {
	result := &Result{Pass: pass, Started: time.Now(), Nodes: make([]NodeResult, len(g.nodes)), shape: g.shape}
	for i := range result.Nodes {
		result.Nodes[i].Name = g.nodes[i].Name
	}
	r := &run{
		ctx: ctx, core: g.shape.machine(pass), workers: 1,
		visit: func(t task) outcome { return g.visit(ctx, c, t, &result.Nodes[t.node]) },
	}
	r.wake.L = &r.mu
	r.core.dropped = ctx.Err() != nil // also lets ctx make what it makes at its first use, without the lock
	r.serve()
	result.conclude(ctx, r.core.nodes)
	return result
}

// serve takes turns in the caller's goroutine until there are none left and the other goroutines
// have ended. If a function ends the caller's goroutine, no further turn starts, and the goroutine
// ends after the others.
func (r *run) serve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.core.dropped = true // nothing is left, unless the goroutine is being ended
		for r.workers > 1 {
			r.waitLocked()
		}
	}()
	for {
		if t, ok := r.takeLocked(); ok {
			r.workLocked(t)
		} else if r.workers > 1 {
			r.waitLocked()
		} else {
			return
		}
	}
}

// assist takes turns in a goroutine of its own while there are any.
func (r *run) assist() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starting--
	defer func() {
		r.workers--
		r.helpLocked() // if a function ended this goroutine, others take its turns
		if r.workers == 1 && r.waiting {
			r.wakeLocked()
		}
	}()
	for {
		t, ok := r.takeLocked()
		if !ok {
			return
		}
		r.workLocked(t)
	}
}

// workLocked executes a turn, without the lock.
func (r *run) workLocked(t task) {
	o := blocked // used if the function ends the goroutine
	defer func() {
		r.mu.Lock()
		r.core.end(t, o)
	}()
	r.mu.Unlock()
	o = r.visit(t)
}

// takeLocked returns the next turn, and starts goroutines for those after it. No turn is taken once
// the context has ended.
func (r *run) takeLocked() (task, bool) {
	if r.ctx.Err() != nil {
		r.core.dropped = true
	}
	t, ok := r.core.take()
	r.helpLocked()
	return t, ok
}

// helpLocked starts or wakes goroutines for the turns that none is about to take, up to the limit.
func (r *run) helpLocked() {
	for r.core.waiting() > r.starting {
		switch {
		case r.waiting:
			r.wakeLocked()
		case r.workers < r.core.limit:
			r.workers++
			r.starting++
			go r.assist()
		default:
			return
		}
	}
}

// waitLocked makes the caller wait until it is woken.
func (r *run) waitLocked() {
	for r.waiting = true; r.waiting; {
		r.wake.Wait()
	}
	r.starting--
}

func (r *run) wakeLocked() {
	r.waiting = false
	r.starting++
	r.wake.Signal()
}
