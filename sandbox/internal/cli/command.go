package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128

	// commandGrace is how long the command, and what it left running, may take to
	// end when told to.
	commandGrace = 10 * time.Second
	// patience is the number of signals after which the command is killed.
	patience = 3
	// groupInterval is how often a process group is looked at that must end. Only
	// its leader is our child, so nothing announces the end of the others.
	groupInterval = 20 * time.Millisecond
)

// command is the user's command.
type command struct {
	cmd *exec.Cmd
	// shared says that the command is in our process group, where the terminal's
	// Ctrl-C reaches it without us.
	shared bool
	ended  chan error
}

// runCommand runs the user's command until it ends, and returns its exit code. The
// signals that we get are passed on. If a component dies, the command is ended.
func runCommand(plane *sandbox.ControlPlane, argv []string, s streams, signals <-chan os.Signal) int {
	c, err := startCommand(plane, argv, s)
	if err != nil {
		fmt.Fprintf(s.err, "sandbox: run %s: %v\n", argv[0], pathless(err))
		return startCode(err)
	}
	release, err := plane.Guard(c.cmd.Process.Pid, !c.shared)
	if err != nil {
		c.kill()
		<-c.ended
		return fail(s.err, err)
	}
	defer release()
	defer c.endGroup()
	for received := 0; ; {
		select {
		case err := <-c.ended:
			return endCode(err)
		case <-plane.Done():
			code := fail(s.err, plane.Err())
			c.end()
			return code
		case signal := <-signals:
			if received++; received == patience {
				c.kill()
				continue
			}
			// In a shared group, Ctrl-C has reached the command already.
			if !c.shared || signal != os.Interrupt {
				c.signal(signal.(syscall.Signal))
			}
		}
	}
}

func startCommand(plane *sandbox.ControlPlane, argv []string, s streams) (*command, error) {
	folder := filepath.Join(plane.Folder(), "bin")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.Symlink(plane.Binary(), filepath.Join(folder, "kubectl")); err != nil {
		return nil, err
	}
	path := os.Getenv("PATH") + string(filepath.ListSeparator) + folder
	// Before the look-up below, which uses our own PATH.
	if err := os.Setenv("PATH", path); err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), kubeconfigVariables(plane)...)
	cmd.Env = append(cmd.Env, sandbox.BinaryVariable+"="+plane.Binary())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	c := &command{cmd: cmd, shared: foreground(s.in), ended: make(chan error, 1)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !c.shared}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- cmd.Wait() }()
	return c, nil
}

// foreground says whether in is a terminal whose foreground we are. The command then
// must stay in our process group, or it could not read from the terminal (a shell, an
// editor), and Ctrl-Z would stop it but not us.
func foreground(in *os.File) bool {
	group, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// signal sends s to the command and, outside a shared group, to all it has started.
// The command may be gone already; that shows elsewhere.
func (c *command) signal(s syscall.Signal) {
	target := c.cmd.Process.Pid
	if !c.shared {
		target = -target
	}
	_ = syscall.Kill(target, s)
}

func (c *command) kill() { c.signal(syscall.SIGKILL) }

// end makes the command end, politely first.
func (c *command) end() {
	c.signal(syscall.SIGTERM)
	late := time.NewTimer(commandGrace)
	defer late.Stop()
	select {
	case <-c.ended:
	case <-late.C:
		c.kill()
		<-c.ended
	}
}

// endGroup ends what the command has left running: it would be of no use without the
// control plane.
func (c *command) endGroup() {
	if c.shared {
		return
	}
	gone := func() bool { return guard.Ended(-c.cmd.Process.Pid) }
	if gone() {
		return
	}
	c.signal(syscall.SIGTERM)
	for end := time.Now().Add(commandGrace); !gone() && time.Now().Before(end); {
		time.Sleep(groupInterval)
	}
	c.kill()
}

// startCode is the exit code a shell gives for a command that cannot be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

func pathless(err error) error {
	if e := errors.Unwrap(err); e != nil {
		return e
	}
	return err
}

// endCode is the exit code a shell gives for a command that ended so.
func endCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return exitFailure
		}
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return exit.ExitCode()
}
