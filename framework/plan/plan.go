package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/framework/observe"
)

// Options configures [Run]. The zero value of each field is its documented default.
type Options struct {
	// Timeout is how long the plan may take. Default: as long as ctx lasts. If it is too short, the
	// report has the primaries that had no run.
	Timeout time.Duration
	// Progress, if set, is called when the plan has come further, by one goroutine at a time. The plan
	// waits for it.
	Progress func(Progress)
}

// Progress is how far a plan has come, for each controller in the order of registration.
type Progress []ControllerProgress

// ControllerProgress is how far a plan has come with one controller.
type ControllerProgress struct {
	Controller string `json:"controller"`
	// Started is set once the controller's caches are filled. Total is 0 before.
	Started bool `json:"started"`
	// Done and Total are numbers of primaries.
	Done  int `json:"done"`
	Total int `json:"total"`
}

// String returns the progress in one line.
func (p Progress) String() string {
	text := ""
	for i, c := range p {
		if i > 0 {
			text += ", "
		}
		if !c.Started {
			text += c.Controller + " starting"
			continue
		}
		text += fmt.Sprintf("%s %d/%d", c.Controller, c.Done, c.Total)
	}
	return text
}

// ErrIncomplete means that the time was up before each primary had its run. The report has the
// rest.
var ErrIncomplete = errors.New("plan: the time was up")

// IsPlan reports whether ctx is that of a run, or of a request, that is only planned. Code that
// changes other systems must do nothing then.
func IsPlan(ctx context.Context) bool { return planning.Of(ctx) != nil }

// checkGone is how often the plan looks for primaries that others have deleted meanwhile: these
// have no run. It is polled because the scheduler only drops them.
const checkGone = time.Second

// Run plans what the operator that register sets up would change. register is called once, with an
// operator for config and options, and must not start it.
//
// options are those of the real operator. There is no leader election, but what follows from the
// name of the lease stays. A kind that is not served within SyncTimeout is an error, as with
// [framework.FailStart].
//
// Run returns an error if the operator cannot be set up or started. If the time is up before, it
// returns the report and an error that matches [ErrIncomplete]. Runs that fail are no error, but in
// the report.
func Run(ctx context.Context, config *rest.Config, options framework.OperatorOptions, register func(*framework.Operator) error, o Options) (*Report, error) {
	p := newPlanner()
	err := p.run(ctx, config, options, register, o)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return nil, err
	}
	return p.report(), err
}

func (p *planner) run(ctx context.Context, config *rest.Config, options framework.OperatorOptions, register func(*framework.Operator) error, o Options) error {
	if o.Timeout < 0 {
		return fmt.Errorf("plan: Options: Timeout %v: must not be negative", o.Timeout)
	}
	if options.StartPolicy == framework.WaitForKinds {
		options.StartPolicy = framework.FailStart
	}
	if options.Grace == 0 {
		options.Grace = -1
	}
	options.Observers = slices.Insert(slices.Clone(options.Observers), 0, observe.Observer(p))
	op, err := framework.NewOperator(config, options)
	if err != nil {
		return err
	}
	if err := p.setLocal(config); err != nil {
		return err
	}
	if err := register(op); err != nil {
		return err
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	// The plan is over before its runs are cut off, so that these do not count as failed.
	running, stop := context.WithCancel(planning.With(context.WithoutCancel(ctx), p))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- op.Run(running) }()
	if err := p.follow(ctx, ended, o.Progress); err != nil {
		return err
	}
	p.end()
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if !p.complete() {
		return fmt.Errorf("%w: %w", ErrIncomplete, context.Cause(ctx))
	}
	return nil
}

// follow returns when all primaries had their run, when ctx has ended, or with why the operator has
// ended before.
func (p *planner) follow(ctx context.Context, ended <-chan error, progress func(Progress)) error {
	gone := time.NewTicker(checkGone)
	defer gone.Stop()
	for !p.complete() {
		select {
		case <-p.changed:
			if progress != nil {
				progress(p.progress())
			}
		case <-gone.C:
			p.dropGone()
		case err := <-ended:
			return errors.Join(errors.New("plan: the operator has stopped"), err)
		case <-ctx.Done():
			return nil
		}
	}
	if progress != nil {
		progress(p.progress())
	}
	return nil
}
