package workflow

import (
	"context"
	"sync"
	"time"
)

// run is the shell around the machine: the goroutines of a pass. The caller's is the first of them, so that a graph
// without branches needs no other.
type run struct {
	ctx   context.Context
	visit func(task) outcome

	mu      sync.Mutex // guards everything below; a leaf
	core    machine
	workers int       // the goroutines, the caller's included
	coming  int       // those of them that are about to take a turn
	resting bool      // the caller's waits for the others
	wake    sync.Cond // tells it of work, or that the others have ended
}

// pass goes through the graph once.
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
	r.serve()
	result.conclude(ctx, r.core.nodes)
	return result
}

// serve takes turns in the goroutine of the caller until there are none left, and the others have ended. Should a
// function end that goroutine, nothing more is started, and it ends when the others have.
func (r *run) serve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		r.core.dropped = true // there is nothing left, unless the goroutine is being ended
		for r.workers > 1 {
			r.restLocked()
		}
	}()
	for {
		if t, ok := r.takeLocked(); ok {
			r.workLocked(t)
		} else if r.workers > 1 {
			r.restLocked()
		} else {
			return
		}
	}
}

// assist takes turns in a goroutine of its own while there are any.
func (r *run) assist() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coming--
	defer func() {
		r.workers--
		r.helpLocked() // a goroutine that a function ended leaves its turns to others
		if r.workers == 1 && r.resting {
			r.rouseLocked()
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

// workLocked has a turn, without the lock.
func (r *run) workLocked(t task) {
	o := held // if the function ends the goroutine
	defer func() {
		r.mu.Lock()
		r.core.end(t, o)
	}()
	r.mu.Unlock()
	o = r.visit(t)
}

// takeLocked returns the next turn, and sees that others take those after it. Nothing is taken once the context ended.
func (r *run) takeLocked() (task, bool) {
	if r.ctx.Err() != nil {
		r.core.dropped = true
	}
	t, ok := r.core.take()
	r.helpLocked()
	return t, ok
}

// helpLocked has goroutines for the turns that nobody is about to take, up to the limit.
func (r *run) helpLocked() {
	for r.core.waiting() > r.coming {
		switch {
		case r.resting:
			r.rouseLocked()
		case r.workers < r.core.limit:
			r.workers++
			r.coming++
			go r.assist()
		default:
			return
		}
	}
}

// restLocked has the caller wait until it is roused.
func (r *run) restLocked() {
	for r.resting = true; r.resting; {
		r.wake.Wait()
	}
	r.coming--
}

func (r *run) rouseLocked() {
	r.resting = false
	r.coming++
	r.wake.Signal()
}
