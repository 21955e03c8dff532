package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
	"github.com/evenkeel/evenkeel/timeline"
)

// restartDelay is how long nobody works after a process has died, as with a kubelet.
const restartDelay = time.Second

// Process is one process of the operator in a life. What it does to the API server and to external
// systems ends with its death.
type Process struct {
	life   *life
	number int // from 1
	line   network.Line
	op     *framework.Operator // nil before there is one; guarded by life.mu
	alive  context.Context     //nolint:containedctx // the life of the process itself
	end    context.CancelFunc
}

// Config returns the configuration of the process's connection to the API server, for clients of
// the author's own. Their requests fail like those of the operator.
func (p *Process) Config() *rest.Config {
	config := rest.CopyConfig(p.life.server.operators())
	config.UserAgent = fmt.Sprintf("%s/process-%d", p.life.operatorName(), p.number)
	config.Wrap(p.line.Wrap)
	return config
}

// External returns the process's access to a system outside of the cluster; see [External].
func (p *Process) External(name string) *External {
	return &External{system: p.life.external(name), by: p}
}

// operator returns the process's operator, nil before there is one.
func (p *Process) operator() *framework.Operator {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.op
}

// workingIn returns the operator of the youngest process that lives, nil if there is none.
func workingIn(l *life) *framework.Operator {
	if p := l.current(); p != nil {
		return p.operator()
	}
	return nil
}

// isReplaced reports whether there is another process, which works.
func isReplaced(old *Process) bool {
	next := old.life.current()
	if next == nil || next == old {
		return false
	}
	op := next.operator()
	return op != nil && op.Ready() == nil
}

// isReady checks that the operator works: one that waits for a kind that is not served does nothing
// wrong, as it does nothing.
func isReady(l *life) {
	op := workingIn(l)
	if op == nil || l.elects {
		return
	}
	if err := op.Ready(); err != nil {
		l.fail("the operator is not ready at rest: %v", err)
	}
}

// retryIn returns the time until the next retry of a failed run, 0 if there is none.
func retryIn(l *life) time.Duration {
	op := workingIn(l)
	if op == nil {
		return 0
	}
	next := map[string]time.Duration{}
	for _, controller := range controllersOf(op) {
		for _, r := range op.Records(controller) { // oldest first
			key := controller + " " + r.Key
			if delete(next, key); r.Outcome == timeline.Failed && r.Next > 0 {
				next[key] = time.Until(r.Started.Add(r.Duration + r.Next))
			}
		}
	}
	soonest := time.Duration(0)
	for _, in := range next {
		if in > 0 && (soonest == 0 || in < soonest) {
			soonest = in
		}
	}
	return soonest
}

// controllersOf returns the names of an operator's controllers.
func controllersOf(op *framework.Operator) []string {
	var all []string
	for _, source := range op.Health() {
		all = append(all, source.Controller)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// die ends the process at once. It may be called in the midst of a request.
func (p *Process) die(why string) {
	p.line.Die()
	p.life.note("fault", "process %d dies %s", p.number, why)
	p.end()
}

// newProcess returns a process that has not started.
func (l *life) newProcess(ctx context.Context) (*Process, error) {
	l.mu.Lock()
	p := &Process{life: l, number: len(l.processes) + 1}
	l.processes = append(l.processes, p)
	l.mu.Unlock()
	p.alive, p.end = context.WithCancel(ctx)
	p.line.Decide = func(r network.Request) network.Break { return l.decide(p, r) }
	p.line.Seen = l.seen
	options := l.scenario.Operator
	options.Scheme, options.Grace = l.scenario.Scheme, -1
	options.Name = l.operatorName()
	options.Logger = funcr.New(func(prefix, args string) { l.logLine(p.number, prefix+" "+args) }, funcr.Options{})
	if options.KeepRecords == 0 {
		options.KeepRecords = keptRuns
	}
	options.LeaderElection = framework.LeaderElection{Mode: framework.Never}
	if limits := l.server.limits(); l.elects {
		options.LeaderElection = framework.LeaderElection{
			Mode: framework.Always, Namespace: l.electionNamespace(), Identity: fmt.Sprintf("process-%d", p.number),
			LeaseDuration: limits.lease, RenewDeadline: limits.renew, RetryPeriod: limits.retry,
		}
	}
	if len(options.Namespaces) == 0 {
		options.Namespaces = l.server.scope()
	}
	op, err := framework.NewOperator(p.Config(), options)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	p.op = op
	l.mu.Unlock()
	err = errors.New("registering the controllers has failed")
	l.call("Register", func() { err = l.scenario.register(p.op, p) })
	return p, err
}

// keptRuns is how many runs of a controller a process remembers.
const keptRuns = 10_000

// hastyEnds is how often in a row a process may end in its first second. More often there is
// something wrong with the operator.
const hastyEnds = 10

// operate keeps one process of the operator running until the life ends, as a kubelet does.
func (l *life) operate(ctx context.Context) {
	for hasty := 0; ctx.Err() == nil; {
		begun := time.Now()
		p, err := l.newProcess(ctx)
		switch {
		case p == nil:
			l.fail("the operator cannot be made: %v", err)
			return
		case err != nil: // a read may have failed
			err = fmt.Errorf("the controllers cannot be registered: %w", err)
		default:
			err = p.op.Run(p.alive)
		}
		p.end()
		if ctx.Err() != nil || l.ended() {
			return
		}
		if !p.line.IsDead() {
			l.note("fault", "process %d ended: %v", p.number, err)
			p.line.Die()
		}
		if hasty++; p.life.elects || time.Since(begun) >= restartDelay {
			hasty = 0
		}
		if hasty == hastyEnds {
			l.fail("the operator does not run: %v", err)
			return
		}
		if !network.Sleep(ctx, restartDelay) {
			return
		}
		l.note("fault", "another process starts")
	}
}
