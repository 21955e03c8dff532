package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The words of the protocol; each is a line "word argument".
const (
	wordGroup   = "group"
	wordProcess = "process"
	wordGone    = "gone"
	wordRemove  = "remove"
	wordDone    = "done"
)

const (
	// killDeadline bounds the wait for killed processes to vanish.
	killDeadline = 10 * time.Second
	killInterval = 20 * time.Millisecond
)

// task is what a guard has been told.
type task struct {
	targets map[int]int // number as told → number for kill(2): negative for a group
	paths   []string
	done    bool
}

// Run is the guard: it reads what its owner says until the owner is gone, cleans
// up unless that said "done", and returns the exit code.
func Run(owner io.Reader) int {
	// A guard that could be interrupted would be useless when it is needed.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	t := task{targets: map[int]int{}}
	lines := bufio.NewScanner(owner)
	for lines.Scan() {
		if err := t.hear(lines.Text()); err != nil {
			fmt.Fprintln(os.Stderr, "sandbox: guard:", err)
		}
	}
	if t.done {
		return 0
	}
	if err := errors.Join(t.kill(), t.remove()); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox: guard:", err)
		return 1
	}
	return 0
}

func (t *task) hear(line string) error {
	word, argument, _ := strings.Cut(line, " ")
	switch word {
	case wordDone:
		t.done = true
		return nil
	case wordRemove:
		path, err := strconv.Unquote(argument)
		if err != nil {
			return fmt.Errorf("bad line %q: %w", line, err)
		}
		t.paths = append(t.paths, path)
		return nil
	}
	id, err := strconv.Atoi(argument)
	if err != nil || id <= 1 {
		return fmt.Errorf("bad line %q", line)
	}
	switch word {
	case wordGroup:
		t.targets[id] = -id
	case wordProcess:
		t.targets[id] = id
	case wordGone:
		delete(t.targets, id)
	default:
		return fmt.Errorf("bad line %q", line)
	}
	return nil
}

// kill kills all targets and waits until they are gone, so that none writes into
// a folder that is being removed.
func (t *task) kill() error {
	for _, target := range t.targets {
		_ = syscall.Kill(target, syscall.SIGKILL) // gone already is fine
	}
	// They are not our children, so there is nothing to wait on but their absence.
	for end := time.Now().Add(killDeadline); len(t.targets) > 0; time.Sleep(killInterval) {
		for id, target := range t.targets {
			if Ended(target) {
				delete(t.targets, id)
			}
		}
		if len(t.targets) > 0 && time.Now().After(end) {
			return fmt.Errorf("%d killed processes are still there after %s", len(t.targets), killDeadline)
		}
	}
	return nil
}

func (t *task) remove() error {
	var all error
	for _, path := range t.paths {
		all = errors.Join(all, os.RemoveAll(path))
	}
	return all
}
