package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
)

// Component is one process of a control plane, for fault tests: it can be stopped,
// killed, paused and started again while the rest goes on. It is owned by its
// [ControlPlane]; all methods may be called from several goroutines.
type Component struct {
	name      string
	program   string // what the binary is to run as
	arguments []string
	log       string
	binary    string
	env       []string
	owned     *os.File // which the process keeps open: see owned.go
	guard     *guard.Guard
	stopAfter time.Duration
	before    func(context.Context) error // called before every launch; may be nil
	ready     func(context.Context) error // polls until ready
	died      func(error)                 // told of an end that nobody asked for

	mu      sync.Mutex // guards what follows
	process *process   // nil before the first start
}

// process is one life of a component. ended is closed after the process was reaped;
// the other fields are guarded by the component's mutex.
type process struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	wanted bool // somebody asked it to end
}

// Name returns the component's name, such as [Etcd] or "kube-apiserver-2".
func (c *Component) Name() string { return c.name }

// Log returns the path of the component's log. The file vanishes with the control
// plane, unless there is an [Options.Logs].
func (c *Component) Log() string { return c.log }

// PID returns the process's number, 0 if the component does not run.
func (c *Component) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.process; p != nil && !p.over() {
		return p.cmd.Process.Pid
	}
	return 0
}

// Start starts a component that was stopped or killed, with the arguments and
// ports it had before, and waits until it is ready or ctx is done. A component that
// runs is only waited for.
func (c *Component) Start(ctx context.Context) error {
	if c.before != nil && c.PID() == 0 {
		if err := c.before(ctx); err != nil {
			return err
		}
	}
	if err := c.launch(); err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// Stop asks the component to end (SIGTERM), kills it if it has not done so within
// [Options.StopTimeout] or when ctx is done, and returns once it is gone. It is no
// error if the component does not run.
func (c *Component) Stop(ctx context.Context) error {
	p, err := c.signal(syscall.SIGTERM, true)
	if err != nil || p == nil {
		return err
	}
	// A paused process would only see the signal once it is resumed.
	if _, err := c.signal(syscall.SIGCONT, false); err != nil {
		return err
	}
	late := time.NewTimer(c.stopAfter)
	defer late.Stop()
	select {
	case <-p.ended:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	return c.Kill()
}

// Kill ends the component at once (SIGKILL), paused or not, and returns once it is
// gone. It is no error if the component does not run.
func (c *Component) Kill() error {
	p, err := c.signal(syscall.SIGKILL, true)
	if err != nil || p == nil {
		return err
	}
	<-p.ended
	return nil
}

// Pause makes the component stand still (SIGSTOP): its connections stay open and
// nobody answers. It is an error if the component does not run.
func (c *Component) Pause() error { return c.mustSignal(syscall.SIGSTOP) }

// Resume makes a paused component go on (SIGCONT).
func (c *Component) Resume() error { return c.mustSignal(syscall.SIGCONT) }

// Restart is [Component.Stop] and [Component.Start].
func (c *Component) Restart(ctx context.Context) error {
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return c.Start(ctx)
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (c *Component) mustSignal(s syscall.Signal) error {
	p, err := c.signal(s, false)
	if err == nil && p == nil {
		err = fmt.Errorf("sandbox: %s: %s: does not run", c.name, s)
	}
	return err
}

// signal sends s to the component's process group. It returns nil if there is none.
func (c *Component) signal(s syscall.Signal, ends bool) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.process
	if p == nil || p.over() {
		return nil, nil
	}
	p.wanted = p.wanted || ends
	err := syscall.Kill(-p.cmd.Process.Pid, s)
	if err != nil && !errors.Is(err, syscall.ESRCH) { // it is just being reaped
		return nil, fmt.Errorf("sandbox: %s: send %s: %w", c.name, s, err)
	}
	return p, nil
}

// launch starts the process unless it runs.
func (c *Component) launch() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && !c.process.over() {
		return nil
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox: %s: log: %w", c.name, err)
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(c.binary, c.arguments...)
	cmd.Args[0] = c.program
	cmd.Env = c.env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{c.owned}
	// A group of its own: Ctrl-C is for the owner, which stops the components in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("sandbox: %s: start %s: %w", c.name, c.binary, err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	c.process = p
	go c.reap(p)
	if err := c.guard.Group(cmd.Process.Pid); err != nil {
		// Unguarded, or started after the control plane's end: better not at all.
		p.wanted = true
		return fmt.Errorf("sandbox: %s: %w", c.name, errors.Join(err, cmd.Process.Kill()))
	}
	return nil
}

func (c *Component) reap(p *process) {
	err := p.cmd.Wait()
	c.mu.Lock()
	wanted := p.wanted
	close(p.ended)
	c.mu.Unlock()
	// The guard may be gone already when everything ends; it then has done its work.
	_ = c.guard.Gone(p.cmd.Process.Pid)
	if !wanted {
		c.died(c.obituary(err))
	}
}

// obituary says how the component ended and what it said last.
func (c *Component) obituary(err error) error {
	how := "ended by itself"
	if err != nil {
		how = err.Error()
	}
	return fmt.Errorf("sandbox: %s: %w: %s\n%s", c.name, ErrComponentDied, how, logTail(c.log))
}

// waitReady waits until the component answers, has ended, or ctx is done.
func (c *Component) waitReady(ctx context.Context) error {
	c.mu.Lock()
	p := c.process
	c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended:
			cancel(c.obituary(errors.New("ended before it was ready")))
		case <-ctx.Done():
		}
	}()
	if err := c.ready(ctx); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrComponentDied) {
			return cause
		}
		return fmt.Errorf("sandbox: %s is not ready: %w\n%s", c.name, err, logTail(c.log))
	}
	return nil
}
