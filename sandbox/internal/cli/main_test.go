package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/await"
	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

var binary string // the sandbox program, set once before all tests

func TestMain(m *testing.M) {
	var err error
	if binary, err = sandbox.FindBinary(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run is one run of the sandbox program. Its temporary folder is its own, so that
// whatever it leaves there is found.
type run struct {
	t              *testing.T
	cmd            *exec.Cmd
	temporary      string
	stdout, stderr *bytes.Buffer
}

func prepare(t *testing.T, arguments ...string) *run {
	t.Helper()
	// Not t.TempDir: its removal would fail the test for a reason that hides ours.
	temporary, err := os.MkdirTemp("", "cli-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temporary) })
	r := &run{t: t, cmd: exec.Command(binary, arguments...), temporary: temporary, stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	r.cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	return r
}

// sandboxed runs the program to its end and checks the exit code.
func sandboxed(t *testing.T, code int, arguments ...string) *run {
	t.Helper()
	r := prepare(t, arguments...)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.wait(code)
	return r
}

// wait waits for the end, checks the exit code, and that nothing is left.
func (r *run) wait(code int) {
	r.t.Helper()
	_ = r.cmd.Wait() // the exit code is checked
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("%v: exit code %d, want %d\n%s%s", r.cmd.Args[1:], got, code, r.stdout, r.stderr)
	}
	if err := r.left(); err != nil {
		r.t.Error(err)
	}
}

// left returns an error that names what the run has left behind.
func (r *run) left() error {
	files, err := os.ReadDir(r.temporary)
	pids, pidErr := leftover.Processes(r.temporary)
	if err := errors.Join(err, pidErr); err != nil {
		return err
	}
	if len(files)+len(pids) > 0 {
		return fmt.Errorf("left behind: files %v, processes %v", files, pids)
	}
	return nil
}

// folder waits until the run has a temporary folder and returns it.
func (r *run) folder() string {
	r.t.Helper()
	var folder string
	eventually(r.t, func() error {
		found, err := filepath.Glob(filepath.Join(r.temporary, "evenkeel-sandbox-*"))
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("there is no folder: %v", found)
		}
		if err == nil {
			folder = found[0]
		}
		return err
	})
	return folder
}

// awaitFile waits until the file has content and returns that.
func awaitFile(t *testing.T, file string) string {
	t.Helper()
	var content string
	eventually(t, func() error {
		read, err := os.ReadFile(file)
		if err == nil && !strings.HasSuffix(string(read), "\n") {
			err = fmt.Errorf("%s is not complete: %q", file, read)
		}
		content = strings.TrimSpace(string(read))
		return err
	})
	return content
}

// eventually repeats check until it returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	await.Success(t, 60*time.Second, check)
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}
