package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reader is somebody who follows a page: with terminals, and a folder that is empty at first.
type reader struct {
	folder      string
	scratch     string // for what the reader does not see
	environment []string
	limit       time.Duration // of one step
	stop        chan struct{} // closed to give up
	show        func(string)
	terminals   map[int]*terminal
	running     map[int]running // by terminal
	files       int             // written into scratch
}

// running is a block that keeps running.
type running struct {
	step step
	from int // where its output begins
}

// follow does what the page says, in order.
func (r *reader) follow(p page) error {
	for _, s := range p.steps {
		if err := r.do(s); err != nil {
			return fmt.Errorf("line %d: %w", s.line, err)
		}
	}
	for terminal, left := range r.running {
		return fmt.Errorf("line %d: the page does not end what keeps running in terminal %d", left.step.line, terminal)
	}
	return nil
}

func (r *reader) do(s step) error {
	switch {
	case s.file != "":
		return r.write(s)
	case s.interrupt:
		return r.interrupt(s.terminal)
	default:
		return r.typeIn(s)
	}
}

// module is the folder that the page makes: the reader's only one.
func (r *reader) module() (string, error) {
	found, err := filepath.Glob(filepath.Join(r.folder, "*", "go.mod"))
	if err != nil || len(found) != 1 {
		return "", errors.Join(fmt.Errorf("want one folder with a go.mod, have %q", found), err)
	}
	return filepath.Dir(found[0]), nil
}

func (r *reader) write(s step) error {
	module, err := r.module()
	if err != nil {
		return err
	}
	path := filepath.Join(module, filepath.FromSlash(s.file))
	if !strings.HasPrefix(path, module+string(filepath.Separator)) {
		return fmt.Errorf("%s is outside of the module", s.file)
	}
	r.show("write " + s.file)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(s.content), 0o644))
}

// typeIn types the commands of a step and waits until they have ended, or, if they stay, until they
// have printed what the page says.
func (r *reader) typeIn(s step) error {
	if left, busy := r.running[s.terminal]; busy {
		return fmt.Errorf("terminal %d is busy with what line %d has started", s.terminal, left.step.line)
	}
	t, err := r.open(s.terminal)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(s.commands, "\n"), "\n") {
		r.show(t.name + " $ " + line)
	}
	from, err := r.run(t, s.commands)
	if err != nil {
		return err
	}
	if s.stays {
		r.running[s.terminal] = running{step: s, from: from}
		return r.awaitOutput(t, from, s.expect)
	}
	code, output, err := r.awaitEnd(t, from)
	switch {
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("the commands fail with exit code %d:\n%s\n%s", code, s.commands, output)
	}
	if want := missing(s.expect, output); want != "" {
		return fmt.Errorf("the commands do not print %q, or not in this order:\n%s\n%s", want, s.commands, output)
	}
	return nil
}

func (r *reader) open(number int) (*terminal, error) {
	if t := r.terminals[number]; t != nil {
		return t, nil
	}
	t, err := openTerminal(fmt.Sprint("terminal ", number), r.folder, r.environment, r.show)
	if err == nil {
		r.terminals[number] = t
	}
	return t, err
}

func (r *reader) run(t *terminal, commands string) (from int, err error) {
	r.files++
	file := filepath.Join(r.scratch, fmt.Sprintf("block-%d.sh", r.files))
	if err := os.WriteFile(file, []byte(commands), 0o600); err != nil {
		return 0, err
	}
	return t.run(file)
}

// awaitOutput waits for the lines of what keeps running.
func (r *reader) awaitOutput(t *terminal, from int, expect []string) error {
	over := false
	output, ok := t.until(from, r.limit, r.stop, func(output string, ended bool) bool {
		over = ended || t.code(output) >= 0
		return over || missing(expect, output) == ""
	})
	switch {
	case over:
		return fmt.Errorf("the commands are to keep running, but have ended:\n%s", output)
	case !ok:
		return fmt.Errorf("%q is not printed after %s:\n%s", missing(expect, output), r.limit, output)
	}
	return nil
}

// awaitEnd waits until the commands have ended.
func (r *reader) awaitEnd(t *terminal, from int) (code int, output string, err error) {
	output, ok := t.until(from, r.limit, r.stop, func(output string, ended bool) bool { return ended || t.code(output) >= 0 })
	code = t.code(output)
	switch {
	case !ok:
		err = fmt.Errorf("the commands have not ended after %s:\n%s", r.limit, output)
	case code < 0:
		err = fmt.Errorf("the terminal has closed:\n%s", output)
	}
	return code, output, err
}

// interrupt presses Ctrl-C. It then starts the same once more, to see that SIGTERM ends it as well:
// Kubernetes sends that.
func (r *reader) interrupt(number int) error {
	left, busy := r.running[number]
	if !busy {
		return fmt.Errorf("nothing keeps running in terminal %d", number)
	}
	delete(r.running, number)
	t := r.terminals[number]
	r.show(t.name + " ^C")
	if err := t.interrupt(); err != nil {
		return err
	}
	if err := r.endsWell(t, left.from, "Ctrl-C"); err != nil {
		return err
	}
	return r.terminate(t, left.step)
}

func (r *reader) endsWell(t *terminal, from int, after string) error {
	code, output, err := r.awaitEnd(t, from)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d:\n%s", code, output)
	}
	if err != nil {
		return fmt.Errorf("after %s: %w", after, err)
	}
	return nil
}

// terminate starts what keeps running again, which is the last line of the step, and stops it with
// SIGTERM.
func (r *reader) terminate(t *terminal, s step) error {
	number := filepath.Join(r.scratch, "pid")
	lines := strings.Split(strings.TrimSuffix(s.commands, "\n"), "\n")
	last := len(lines) - 1
	lines[last] = fmt.Sprintf("(echo $BASHPID >%s; exec %s)", number, lines[last])
	from, err := r.run(t, strings.Join(lines, "\n")+"\n")
	if err != nil {
		return err
	}
	if err := r.awaitOutput(t, from, s.expect); err != nil {
		return fmt.Errorf("started again: %w", err)
	}
	content, err := os.ReadFile(number)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return err
	}
	r.show(t.name + " SIGTERM")
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	return r.endsWell(t, from, "SIGTERM")
}

// close ends all terminals.
func (r *reader) close() {
	r.stop = nil
	for number, left := range r.running {
		// In good order, so that nothing stays behind that is not in the terminal's group.
		if t := r.terminals[number]; t.interrupt() == nil {
			_, _, _ = r.awaitEnd(t, left.from)
		}
	}
	for _, t := range r.terminals {
		t.close()
	}
}
