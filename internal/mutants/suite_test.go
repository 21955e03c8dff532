package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// limit bounds the tests of one mutant; they take less than a minute.
	limit = 3 * time.Minute
	// suiteLimit bounds all tests of a package.
	suiteLimit = 15 * time.Minute
	// hangLimit bounds those of a mutant that hangs.
	hangLimit = time.Minute
)

// program is the compiled tests of a package.
type program struct {
	file string
	// hasRapid reports that rapid is linked in.
	hasRapid bool
}

// keepNoFailures is the flag of rapid, where it is linked in, that keeps it from storing failures
// in the tree, which the next run would replay.
const keepNoFailures = "rapid.nofailfile"

// compile compiles the tests of a package of the module at a root into a folder.
func compile(ctx context.Context, root, of, folder, overlay string) (program, error) {
	made := program{file: filepath.Join(folder, strings.ReplaceAll(of, "/", "-")+".test")}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+overlay, "-o", made.file, "./"+of)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return program{}, fmt.Errorf("%s does not compile: %w\n%s", of, err, output)
	}
	code, err := os.ReadFile(made.file)
	made.hasRapid = bytes.Contains(code, []byte(keepNoFailures))
	return made, err
}

// outcome is how tests ended.
type outcome struct {
	passed, timedOut bool
	failures         []string // the names of the tests about the rule that failed
	others           []string // what else failed
	output           []byte
}

// run runs tests in the folder of their package below the root, as the go command would. The mutant
// on is switched on; none if that is empty. The names of the files that the tests open are written
// to opened, unless that is empty.
func (p program) run(ctx context.Context, root string, s suite, on string, atMost time.Duration, opened string) (outcome, error) {
	arguments := []string{"-test.timeout=" + atMost.String(), "-test.run=" + s.run}
	if s.focus != "" {
		arguments = append(arguments, "-ginkgo.no-color", "-ginkgo.fail-fast", "-ginkgo.focus="+s.focus)
	}
	if p.hasRapid {
		arguments = append(arguments, "-"+keepNoFailures)
	}
	if opened != "" {
		arguments = append(arguments, "-test.testlogfile="+opened)
	}
	tests := exec.CommandContext(ctx, p.file, arguments...)
	tests.Dir = filepath.Join(root, s.folder)
	tests.Env = append(os.Environ(), switchVariable+"="+on)
	output, err := tests.CombinedOutput()
	got := outcome{passed: err == nil, output: output, timedOut: bytes.Contains(output, []byte("panic: test timed out"))}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return got, err
	}
	got.failures, got.others = s.failures(output)
	return got, got.fault()
}

// fault returns why an outcome says nothing about a mutant, if it does not.
func (o outcome) fault() error {
	switch {
	case bytes.Contains(o.output, []byte("[FAIL] [BeforeSuite]")):
		return errors.New("the API server did not start")
	case !o.passed && len(o.failures) == 0 && len(o.others) > 0:
		return fmt.Errorf("none of the tests about the rule has failed, but %q", o.others)
	case !o.passed && len(o.failures) == 0:
		return errors.New("the tests ended without naming a failure")
	case o.passed && (bytes.Contains(o.output, []byte("no tests to run")) || bytes.Contains(o.output, []byte("\nRan 0 of "))):
		return errors.New("no test is of that name")
	}
	return nil
}

// unexpected returns the files below the root that a test log says were opened, except for those
// that are expected and those in bin/, where programs are.
func unexpected(root, folder string, log []byte, expected map[string]bool) (files []string) {
	current := filepath.Join(root, folder)
	for line := range strings.Lines(string(log)) {
		operation, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !filepath.IsAbs(name) {
			name = filepath.Join(current, name)
		}
		if operation == "chdir" {
			current = name
		}
		below, err := filepath.Rel(root, name)
		if operation != "open" || err != nil || strings.HasPrefix(below, "..") || strings.HasPrefix(below, "bin/") || expected[below] {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !slices.Contains(files, below) {
			files = append(files, below)
		}
	}
	return files
}

func tail(output []byte) []byte { return output[max(0, len(output)-4000):] }
