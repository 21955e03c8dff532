package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// terminal is a shell that stays, as the reader's does. It is for one goroutine.
type terminal struct {
	name    string
	command *exec.Cmd
	input   io.WriteCloser
	marker  *regexp.Regexp // the line that the shell prints after commands, with their exit code

	mu      sync.Mutex // guards below
	output  strings.Builder
	ended   bool // no more comes
	changed chan struct{}
}

// endMark begins the line that the shell prints when commands have ended.
const endMark = "tutorial-ended-with"

// openTerminal starts a shell in the folder. Every line that it prints goes to show.
func openTerminal(name, folder string, environment []string, show func(string)) (*terminal, error) {
	t := &terminal{
		name: name, command: exec.Command("bash", "--noprofile", "--norc"), changed: make(chan struct{}),
		marker: regexp.MustCompile(`(?m)^` + endMark + ` (\d+)$`),
	}
	t.command.Dir, t.command.Env = folder, environment
	// A group of its own, to which Ctrl-C goes.
	t.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if t.input, err = t.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := t.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.command.Stderr = t.command.Stdout
	if err := t.command.Start(); err != nil {
		return nil, fmt.Errorf("start a shell: %w", err)
	}
	go t.read(output, show)
	return t, nil
}

func (t *terminal) read(output io.Reader, show func(string)) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		if line != "" && !strings.HasPrefix(line, endMark) {
			show(t.name + " | " + strings.TrimRight(line, "\n"))
		}
		t.mu.Lock()
		t.output.WriteString(line)
		t.ended = err != nil
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// run gives commands to the shell. The first that fails ends them. It returns where their output
// begins.
func (t *terminal) run(file string) (from int, err error) {
	t.mu.Lock()
	from = t.output.Len()
	t.mu.Unlock()
	// The commands get no input of the shell's own. Neither a failing command nor Ctrl-C may end the
	// shell, which is to print the exit code.
	_, err = fmt.Fprintf(t.input, "trap true INT; trap 'return $? 2>/dev/null' ERR; . %[1]s </dev/null; printf '\\n%[2]s %%s\\n' $?\n", file, endMark)
	return from, err
}

// until waits until done accepts the output, and returns the output then.
// Not so after the limit, or when stop is closed.
func (t *terminal) until(from int, limit time.Duration, stop <-chan struct{}, done func(output string, ended bool) bool) (string, bool) {
	late := time.After(limit)
	for {
		t.mu.Lock()
		output, ended, changed := t.output.String()[from:], t.ended, t.changed
		t.mu.Unlock()
		if done(output, ended) {
			return output, true
		}
		select {
		case <-changed:
		case <-late:
			return output, false
		case <-stop:
			return output, false
		}
	}
}

// code returns the exit code that the shell printed, -1 if it has not.
func (t *terminal) code(output string) int {
	match := t.marker.FindStringSubmatch(output)
	if match == nil {
		return -1
	}
	code, err := strconv.Atoi(match[1])
	if err != nil {
		return -1
	}
	return code
}

// interrupt is Ctrl-C: every process of the terminal gets SIGINT.
func (t *terminal) interrupt() error { return syscall.Kill(-t.command.Process.Pid, syscall.SIGINT) }

// close ends the shell and all that runs in it.
func (t *terminal) close() {
	_ = t.input.Close()
	_ = syscall.Kill(-t.command.Process.Pid, syscall.SIGKILL) // gone already is fine
	_ = t.command.Wait()
}
