package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var board = flag.Bool("board", false, "try every mutant, which takes minutes: make mutants does")

// limit bounds the tests of one mutant; the suites take less than a minute.
const limit = 3 * time.Minute

// mutant is one broken variant.
type mutant struct {
	// name says what is done wrong.
	name string
	// breaks is the guarantee, by its number.
	breaks string
	// file is relative to the module's root. old occurs there exactly once; new stands in its place.
	file, old, new string
	// kills are the tests that are about the rule, in the order in which they are tried: one has to fail.
	kills []suite
	// hangs says why the tests do not end with it: then exceeding their time is a kill, too.
	hangs string
}

// suite is tests of one package of the default run.
type suite struct {
	// folder is the package, relative to the module's root.
	folder string
	// run and focus restrict it as -run and ginkgo's -focus do, to the tests about the rule. Only their
	// failures count: on a busy machine, others may fail for reasons of their own.
	run, focus string
}

// all is the board.
func all() []mutant {
	return slices.Concat(
		ofScheduler, ofLedger, ofStore, ofKeeping, ofEventSource, ofGuest, ofAuthor, ofFramework, ofForms, ofLookups, ofLeader, ofKinds, ofDynamic, ofSimulation,
		ofClusters, ofFates, ofGate, ofInterlock, ofBehind, ofContest, ofWorkflow, ofManaged, ofConditions, ofExternal, ofDependents, ofRealInterlock,
		ofFinalizers, ofFence, ofEnds, ofFootguns,
	)
}

func root() string {
	folder, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return folder
}

// mutated returns the file with the mutant in it.
func (m mutant) mutated() ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root(), m.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, fmt.Errorf("%s: the snippet occurs %d times, want once: has the rule moved?\n%s", m.file, n, m.old)
	}
	return bytes.Replace(source, []byte(m.old), []byte(m.new), 1), nil
}

// overlay writes the mutant beside the tree and returns the file for the go command's -overlay.
func (m mutant) overlay(folder string) (string, error) {
	source, err := m.mutated()
	if err != nil {
		return "", err
	}
	broken := filepath.Join(folder, filepath.Base(m.file))
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root(), m.file): broken}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, errors.Join(os.WriteFile(broken, source, 0o600), os.WriteFile(overlay, content, 0o600))
}

// build compiles the tests of a suite with an overlay, or without one.
func (s suite) build(ctx context.Context, folder, overlay string) (binary string, err error) {
	binary = filepath.Join(folder, strings.ReplaceAll(s.folder, "/", "-")+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-overlay="+overlay, "-o", binary, "./"+s.folder)
	build.Dir = root()
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, output)
	}
	return binary, nil
}

// outcome is how tests ended.
type outcome struct {
	passed, timedOut bool
	failures         []string // the names of the tests about the rule that failed
	others           []string // what else failed
	output           []byte
}

// keepNoFailures is the flag of rapid, where it is linked in, that keeps it from storing failures in the tree,
// which the next run would replay.
const keepNoFailures = "rapid.nofailfile"

// test runs a compiled suite in its folder, as the go command would.
func (s suite) test(ctx context.Context, binary string) (outcome, error) {
	arguments := []string{"-test.timeout=" + limit.String(), "-test.run=" + s.run}
	if s.focus != "" {
		arguments = append(arguments, "-ginkgo.no-color", "-ginkgo.fail-fast", "-ginkgo.focus="+s.focus)
	}
	if code, err := os.ReadFile(binary); err != nil {
		return outcome{}, err
	} else if bytes.Contains(code, []byte(keepNoFailures)) {
		arguments = append(arguments, "-"+keepNoFailures)
	}
	tests := exec.CommandContext(ctx, binary, arguments...)
	tests.Dir = filepath.Join(root(), s.folder)
	output, err := tests.CombinedOutput()
	got := outcome{passed: err == nil, output: output, timedOut: bytes.Contains(output, []byte("panic: test timed out"))}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return got, err
	}
	got.failures, got.others = s.failures(output)
	switch {
	case bytes.Contains(output, []byte("[FAIL] [BeforeSuite]")):
		return got, errors.New("the API server did not start")
	case !got.passed && len(got.failures) == 0 && len(got.others) > 0:
		return got, fmt.Errorf("none of the tests about the rule has failed, but %q", got.others)
	case !got.passed && len(got.failures) == 0:
		return got, errors.New("the tests ended without naming a failure")
	case got.passed && (bytes.Contains(output, []byte("no tests to run")) || bytes.Contains(output, []byte("\nRan 0 of "))):
		return got, errors.New("no test is of that name")
	}
	return got, nil
}

// try returns what noticed the mutant, or nothing if it survives.
func (m mutant) try(ctx context.Context, folder string) (killer string, err error) {
	overlay, err := m.overlay(folder)
	if err != nil {
		return "", err
	}
	for _, s := range m.kills {
		binary, err := s.build(ctx, folder, overlay)
		if err != nil {
			return "", err
		}
		got, err := s.test(ctx, binary)
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w\n%s", s.folder, err, tail(got.output))
		case got.timedOut && m.hangs == "":
			return "", fmt.Errorf("%s: exceeded %v, and hangs does not say why\n%s", s.folder, limit, tail(got.output))
		case got.passed:
			continue
		}
		if err := s.passes(ctx); err != nil {
			return "", fmt.Errorf("%s: %q failed, but without the mutant: %w", s.folder, got.failures, err)
		}
		return s.folder + ": " + got.failures[0], nil
	}
	return "", nil
}

// passes runs a suite without a mutant, on the machine as busy as it is, and returns an error unless it
// passes.
func (s suite) passes(ctx context.Context) error {
	binary, err := s.sound(ctx)
	if err != nil {
		return err
	}
	got, err := s.test(ctx, binary)
	if err == nil && !got.passed {
		err = fmt.Errorf("%q fail", got.failures)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(got.output))
	}
	return nil
}

// soundness is a suite that was compiled without a mutant, once for all mutants.
type soundness struct {
	once   sync.Once
	folder string
	binary string
	err    error
}

// soundSuites are by their folders: *soundness. TestMain removes what they leave.
var soundSuites sync.Map

func (s suite) sound(ctx context.Context) (binary string, err error) {
	found, _ := soundSuites.LoadOrStore(s.folder, &soundness{})
	compiled := found.(*soundness)
	compiled.once.Do(func() {
		if compiled.folder, compiled.err = os.MkdirTemp("", "evenkeel-mutants-"); compiled.err == nil {
			compiled.binary, compiled.err = s.build(context.WithoutCancel(ctx), compiled.folder, "")
		}
	})
	return compiled.binary, compiled.err
}

func TestMain(m *testing.M) {
	code := m.Run()
	soundSuites.Range(func(_, compiled any) bool {
		if err := os.RemoveAll(compiled.(*soundness).folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return true
	})
	os.Exit(code)
}

func tail(output []byte) []byte { return output[max(0, len(output)-4000):] }

func TestEveryMutantIsKilled(t *testing.T) {
	if !*board {
		t.Skip("takes minutes, as every mutant is compiled and tested: run by make mutants")
	}
	var tried, killed atomic.Int32
	t.Run("board", func(t *testing.T) {
		for _, m := range all() {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				tried.Add(1)
				started := time.Now()
				killer, err := m.try(t.Context(), t.TempDir())
				switch {
				case err != nil:
					t.Fatalf("fault of the board: %v", err)
				case killer == "":
					t.Fatalf("survives, and with it nothing checks %s", m.breaks)
				}
				killed.Add(1)
				t.Logf("killed in %.0f s by %s", time.Since(started).Seconds(), killer)
			})
		}
	})
	fmt.Printf("figure mutants_killed %d of %d\n", killed.Load(), tried.Load())
}

// TestTheSuitesPassWithoutMutants is what makes a failing test a kill.
func TestTheSuitesPassWithoutMutants(t *testing.T) {
	if !*board {
		t.Skip("the default run has the suites themselves; make mutants runs them before the board")
	}
	var folders []string
	for _, m := range all() {
		for _, s := range m.kills {
			folders = append(folders, s.folder)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		t.Run(folder, func(t *testing.T) {
			if err := (suite{folder: folder}).passes(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
