package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// processTimeout is how long a program may take to serve, and to end when it is asked to. A busy
	// machine needs some seconds.
	processTimeout = time.Minute
	// pollInterval is how often a server is asked whether it serves: it cannot announce that it will.
	pollInterval = 50 * time.Millisecond
)

// process is a program of the sandbox, which may be ended and started again with the same
// arguments. It is for one goroutine at a time. It ends by itself soon after the test process.
type process struct {
	program string
	args    []string
	log     string // of all its lives

	command *exec.Cmd     // of its latest life, nil before the first
	ended   chan struct{} // closed when that has ended
}

// newProcess returns one that has not been started; its log is in the folder.
func newProcess(folder, program string, args ...string) *process {
	return &process{program: program, args: args, log: filepath.Join(folder, program+".log")}
}

// start starts it, and waits until the address serves.
func (p *process) start(client *http.Client, address string) error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("testenv: start %s: %w", p.program, err)
	}
	defer log.Close() // the process has its own
	command := exec.Command(binary, p.args...)
	command.Args[0] = p.program // the sandbox does what its name says
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not for it
	if err := command.Start(); err != nil {
		return fmt.Errorf("testenv: start %s: %w", p.program, err)
	}
	ended := make(chan struct{})
	p.command, p.ended = command, ended
	go func() {
		_ = command.Wait() // who expects it to run finds its end in the log
		close(ended)
	}()
	return p.awaitServing(client, address)
}

// awaitServing waits until the address answers that all is well.
func (p *process) awaitServing(client *http.Client, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), processTimeout)
	defer cancel()
	for {
		err := asks(ctx, client, address)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("testenv: %s has ended: %s", p.program, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("testenv: %s does not serve: %w: %s", p.program, err, p.lastWords())
		case <-time.After(pollInterval):
		}
	}
}

func asks(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// lastWords is the end of the log.
func (p *process) lastWords() string {
	const enough = 4 << 10
	log, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	if size, err := log.Seek(0, io.SeekEnd); err == nil {
		_, _ = log.Seek(max(0, size-enough), io.SeekStart) // else all is read
	}
	words, err := io.ReadAll(log)
	if err != nil {
		return err.Error()
	}
	return string(words)
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.command.Process.Signal(s); err != nil {
		return fmt.Errorf("testenv: send %s to %s: %w", s, p.program, err)
	}
	return nil
}

// kill ends it at once, even if it is paused or was never started.
func (p *process) kill() error {
	if p.command == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// stop lets it finish what it does.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	late := time.NewTimer(processTimeout)
	defer late.Stop()
	select {
	case <-p.ended:
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("testenv: %s does not end: %s", p.program, p.lastWords()), p.kill())
	}
}
