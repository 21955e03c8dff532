package actors

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// controller is one actor. Its methods are called one at a time, with a state that is up to date.
type controller interface {
	// concerned returns the objects that a commit is news for.
	concerned(c apimodel.Commit) []id
	// act does what there is to do for the object, nil if it does not exist. It is called again
	// after the returned time, 0 for not before news, and after an error.
	act(ctx context.Context, of id, o *unstructured.Unstructured) (again time.Duration, err error)
}

// cast is a controller with the time that it takes to notice a commit.
type cast struct {
	controller
	after time.Duration
}

// task is an object that a controller looks at.
type task struct {
	controller int
	of         id
}

// loop calls the controllers about what the history of the model tells.
type loop struct {
	*state
	requests
	casts []cast
	due   map[task]deadline
}

// deadline is when a task is due. The order tells apart what is due at one time.
type deadline struct {
	at       time.Time
	order    int
	failures int
}

func newLoop(model *apimodel.Model) *loop {
	return &loop{state: newState(model), requests: requests{model}, due: map[task]deadline{}}
}

func (l *loop) add(c controller, after time.Duration) {
	l.casts = append(l.casts, cast{c, after})
}

func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for orders := 0; ctx.Err() == nil; orders++ {
		changed := l.model.Changed()
		l.catchUp(&orders)
		next, at := l.next()
		wait := time.Until(at)
		if len(l.due) > 0 && wait <= 0 {
			l.perform(ctx, next, orders)
			continue
		}
		if len(l.due) > 0 {
			timer.Reset(wait)
		}
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// catchUp takes in what was committed.
func (l *loop) catchUp(orders *int) {
	for _, c := range l.news() {
		for i, cast := range l.casts {
			for _, of := range cast.concerned(c) {
				*orders++
				l.schedule(task{i, of}, deadline{at: c.At.Add(cast.after), order: *orders})
			}
		}
	}
}

// schedule makes the task due, unless it is due earlier.
func (l *loop) schedule(t task, d deadline) {
	if present, scheduled := l.due[t]; scheduled && !d.at.Before(present.at) {
		return
	}
	l.due[t] = d
}

func (l *loop) next() (first task, at time.Time) {
	best := deadline{}
	for t, d := range l.due {
		if best.order == 0 || d.at.Before(best.at) || d.at.Equal(best.at) && d.order < best.order {
			first, best = t, d
		}
	}
	return first, best.at
}

func (l *loop) perform(ctx context.Context, t task, order int) {
	failures := l.due[t].failures
	delete(l.due, t)
	again, err := l.casts[t.controller].act(ctx, t.of, l.objects[t.of])
	switch {
	case err != nil:
		again = min(firstRetry<<min(failures, 10), lastRetry)
		failures++
	case again <= 0:
		return
	default:
		failures = 0
	}
	l.schedule(t, deadline{at: time.Now().Add(again), order: order + 1, failures: failures})
}
