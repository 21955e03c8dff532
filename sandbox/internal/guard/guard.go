package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// Command is the first argument with which a binary runs as a guard.
const Command = "__guard"

// Guard is the owner's side. The zero value is not usable; see [Start].
type Guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex // guards pipe: one message is one line
	pipe io.WriteCloser
}

// Start starts binary as a guard with the environment given (nil means this
// process's). The files in keep stay open in the guard for as long as it lives: an
// flock on one of them is held until the clean-up is over.
func Start(binary string, environment []string, keep ...*os.File) (*Guard, error) {
	cmd := exec.Command(binary, Command)
	cmd.Args[0] = "sandbox"
	cmd.Env = environment
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = keep
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard: pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard: start %s: %w", binary, err)
	}
	return &Guard{cmd: cmd, pipe: pipe}, nil
}

// Group has the process group killed.
func (g *Guard) Group(id int) error { return g.say(wordGroup, strconv.Itoa(id)) }

// Process has the single process killed; for one that shares its owner's group.
func (g *Guard) Process(id int) error { return g.say(wordProcess, strconv.Itoa(id)) }

// Gone takes a group or process back: it has ended, and its number may be used
// again by a stranger.
func (g *Guard) Gone(id int) error { return g.say(wordGone, strconv.Itoa(id)) }

// Remove has the file or folder removed, with everything in it.
func (g *Guard) Remove(path string) error { return g.say(wordRemove, strconv.Quote(path)) }

// Done says that nothing is left to do, and waits until the guard has ended.
func (g *Guard) Done() error {
	said := g.say(wordDone, "")
	g.mu.Lock()
	closed := g.pipe.Close()
	g.mu.Unlock()
	return errors.Join(said, closed, g.cmd.Wait())
}

func (g *Guard) say(word, argument string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := fmt.Fprintf(g.pipe, "%s %s\n", word, argument); err != nil {
		return fmt.Errorf("guard: tell %s %s: %w", word, argument, err)
	}
	return nil
}
