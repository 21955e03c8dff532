package mutants

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/tree"
)

var (
	tryAll  = flag.Bool("board", false, "try every mutant, which takes long: make mutants does")
	fresh   = flag.Bool("fresh", false, "with -board: try mutants again that were killed before")
	figures = flag.Bool("figures", false, "print the board's figures, from the results that are kept")
)

// soundFor is for how long a suite that has passed without a mutant need not do so again.
const soundFor = 5 * time.Minute

// errSurvives is the failure of a mutant that nothing has noticed.
var errSurvives = errors.New("survives")

// board tries mutants of the module at a root. Its methods are safe for concurrent use.
type board struct {
	root    string
	scratch string // a folder for what is compiled
	kept    keptFile
	fresh   bool
	mutants []mutant          // in the order in which they are tried
	inputs  map[string]inputs // of the suites, by folder
	alone   map[string]bool   // the mutants without a switch, by name
	overlay string            // has all switches

	mu       sync.Mutex
	programs map[string]func() (program, error) // with all switches, by folder
	sound    map[suite]*soundness
}

// soundness is when tests have last passed without a mutant.
type soundness struct {
	mu sync.Mutex // held while they run
	at time.Time
}

// newBoard returns a board that keeps its results in a file and compiles into a folder.
func newBoard(ctx context.Context, root, scratch string, kept keptFile, mutants []mutant) (*board, error) {
	of, err := survey(ctx, root, folders(mutants)...)
	if err != nil {
		return nil, err
	}
	made, err := switched(root, mutants)
	if err != nil {
		return nil, err
	}
	written, err := tree.Overlay(root, scratch, made.sources)
	if err != nil {
		return nil, err
	}
	return &board{
		root: root, scratch: scratch, kept: kept, mutants: inOrder(mutants), inputs: of, alone: made.alone, overlay: written,
		programs: map[string]func() (program, error){}, sound: map[suite]*soundness{},
	}, nil
}

// inOrder returns mutants with those of the same tests next to each other, so that tests are
// compiled when they are needed, and run without a mutant only once for all of them.
func inOrder(mutants []mutant) []mutant {
	key := func(m mutant) string { return m.kills[0].folder + "\x00" + m.kills[0].run + "\x00" + m.kills[0].focus }
	return slices.SortedStableFunc(slices.Values(mutants), func(a, b mutant) int { return cmp.Compare(key(a), key(b)) })
}

// settle returns how a mutant is killed: from the kept results, or by trying it. It keeps a kill,
// and forgets what was kept of a mutant that survives.
func (b *board) settle(ctx context.Context, m mutant) (r result, wasKept bool, err error) {
	return b.once(ctx, m.name, m.hash(b.inputs), func() (string, time.Duration, error) { return b.try(ctx, m) })
}

// once returns a kept result with that name and hash, or the one of try, which it keeps unless it
// is an error.
func (b *board) once(ctx context.Context, name, hash string, try func() (string, time.Duration, error)) (r result, wasKept bool, err error) {
	results, err := b.kept.load()
	if err != nil {
		return result{}, false, err
	}
	if r, ok := results[name]; ok && r.Hash == hash && !b.fresh {
		return r, true, nil
	}
	killer, took, err := try()
	if err != nil && ctx.Err() != nil {
		return result{}, false, err // it was broken off
	}
	if err != nil {
		return result{}, false, errors.Join(err, b.kept.forget(name))
	}
	r = result{Name: name, Hash: hash, Killer: killer, Seconds: float64(took.Milliseconds()) / 1000}
	return r, false, b.kept.keep(r)
}

// try returns what noticed the mutant and how long that took, or errSurvives. All other errors are
// faults of the board.
func (b *board) try(ctx context.Context, m mutant) (killer string, took time.Duration, err error) {
	atMost := limit
	if m.hangs != "" {
		atMost = hangLimit
	}
	for _, s := range m.kills {
		if _, err := b.program(ctx, s.folder); err != nil {
			return "", took, err
		}
		started := time.Now()
		got, err := b.run(ctx, m, s, atMost)
		took += time.Since(started)
		switch {
		case err != nil:
			return "", took, fmt.Errorf("%s: %w\n%s", s.folder, err, tail(got.output))
		case got.timedOut && m.hangs == "":
			return "", took, fmt.Errorf("%s: exceeded %v, and hangs does not say why\n%s", s.folder, atMost, tail(got.output))
		case got.passed:
			continue
		}
		started = time.Now()
		err = b.passes(ctx, s)
		took += time.Since(started)
		if err != nil {
			return "", took, fmt.Errorf("%s: %q failed, but without the mutant: %w", s.folder, got.failures, err)
		}
		return s.folder + ": " + got.failures[0], took, nil
	}
	return "", took, errSurvives
}

// run runs tests with a mutant.
func (b *board) run(ctx context.Context, m mutant, s suite, atMost time.Duration) (outcome, error) {
	if !b.alone[m.name] {
		p, err := b.program(ctx, s.folder)
		if err != nil {
			return outcome{}, err
		}
		return p.run(ctx, b.root, s, m.name, atMost, "")
	}
	folder, err := os.MkdirTemp(b.scratch, "alone-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(folder)
	_, mutated, err := m.in(b.root)
	if err != nil {
		return outcome{}, err
	}
	written, err := tree.Overlay(b.root, folder, map[string][]byte{m.file: mutated})
	if err != nil {
		return outcome{}, err
	}
	p, err := b.compile(ctx, s.folder, folder, written)
	if err != nil {
		return outcome{}, err
	}
	return p.run(ctx, b.root, s, "", atMost, "")
}

// program returns the tests of a package, which are compiled once for all mutants that have a
// switch.
func (b *board) program(ctx context.Context, folder string) (program, error) {
	b.mu.Lock()
	compiled, ok := b.programs[folder]
	if !ok {
		compiled = sync.OnceValues(func() (program, error) {
			return b.compile(context.WithoutCancel(ctx), folder, b.scratch, b.overlay)
		})
		b.programs[folder] = compiled
	}
	b.mu.Unlock()
	return compiled()
}

// compile compiles tests and makes sure that it was from what their hash covers: the tree may have
// been changed since the board has begun.
func (b *board) compile(ctx context.Context, of, folder, overlay string) (program, error) {
	made, err := compile(ctx, b.root, of, folder, overlay)
	if err != nil {
		return program{}, err
	}
	now, err := survey(ctx, b.root, of)
	if err != nil {
		return program{}, err
	}
	if now[of].digest != b.inputs[of].digest {
		return program{}, fmt.Errorf("%s: what it is compiled from has changed while the board ran", of)
	}
	return made, nil
}

// passes returns an error unless tests pass without a mutant, on the machine as busy as it is: by a
// run of theirs, or by one that is not longer ago than soundFor.
func (b *board) passes(ctx context.Context, s suite) error {
	b.mu.Lock()
	last, ok := b.sound[s]
	if !ok {
		last = &soundness{}
		b.sound[s] = last
	}
	b.mu.Unlock()
	last.mu.Lock()
	defer last.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < soundFor {
		return nil
	}
	if err := b.runSound(ctx, s, limit); err != nil {
		return err
	}
	last.at = time.Now()
	return nil
}

// runSound returns an error unless tests pass without a mutant and open no files except those that
// are among their inputs.
func (b *board) runSound(ctx context.Context, s suite, atMost time.Duration) error {
	p, err := b.program(ctx, s.folder)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(b.scratch, "sound-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	opened := filepath.Join(folder, "opened")
	got, err := p.run(ctx, b.root, s, "", atMost, opened)
	if err == nil && !got.passed {
		err = fmt.Errorf("%q fail", got.failures)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(got.output))
	}
	log, err := os.ReadFile(opened)
	if err != nil {
		return err
	}
	if files := unexpected(b.root, s.folder, log, b.inputs[s.folder].files); len(files) > 0 {
		return fmt.Errorf("reads %q, which are not among its inputs: name them in alsoRead", files)
	}
	return nil
}

// settleSuite makes sure that all tests of a package pass without a mutant.
func (b *board) settleSuite(ctx context.Context, folder string) (r result, wasKept bool, err error) {
	return b.once(ctx, "all of "+folder, b.inputs[folder].digest, func() (string, time.Duration, error) {
		if _, err := b.program(ctx, folder); err != nil {
			return "", 0, err
		}
		started := time.Now()
		err := b.runSound(ctx, suite{folder: folder}, suiteLimit)
		return "", time.Since(started), err
	})
}

// killed returns the results that are kept of the board's mutants as they are today.
func (b *board) killed() ([]result, error) {
	results, err := b.kept.load()
	if err != nil {
		return nil, err
	}
	var found []result
	for _, m := range b.mutants {
		if r, ok := results[m.name]; ok && r.Hash == m.hash(b.inputs) {
			found = append(found, r)
		}
	}
	return found, nil
}

// report prints the slowest of the results, and the figures.
func (b *board) report(w io.Writer) error {
	found, err := b.killed()
	if err != nil {
		return err
	}
	total := 0.0
	for _, r := range found {
		total += r.Seconds
	}
	slices.SortStableFunc(found, func(x, y result) int { return cmp.Compare(y.Seconds, x.Seconds) })
	fmt.Fprintf(w, "the slowest of %d mutants, which took %.0f s in all:\n", len(found), total)
	for _, r := range found[:min(15, len(found))] {
		fmt.Fprintf(w, "%8.1f s  %s, by %.60s\n", r.Seconds, r.Name, r.Killer)
	}
	return b.printFigures(w)
}

// printFigures prints how many mutants there are, and how many of them are known to be killed on
// the tree as it is.
func (b *board) printFigures(w io.Writer) error {
	found, err := b.killed()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "figure mutants_total %d\nfigure mutants_killed %d\n", len(b.mutants), len(found))
	return err
}

// each calls a function for items in their order, as many at a time as -parallel says.
func each[T any](items []T, do func(T)) {
	width, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	if err != nil {
		panic(err)
	}
	next := make(chan T)
	var workers sync.WaitGroup
	for range width {
		workers.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	workers.Wait()
}

// keptResults is the file of the results in the tree.
func keptResults() keptFile { return keptFile(filepath.Join(root(), "bin", "mutants.json")) }

// TestBoard tries the suites without a mutant, which is what makes a failing test a kill, and then
// all mutants.
func TestBoard(t *testing.T) {
	if !*tryAll {
		t.Skip("takes long, as every suite is run with each of its mutants: run by make mutants")
	}
	b, err := newBoard(t.Context(), root(), t.TempDir(), keptResults(), all())
	if err != nil {
		t.Fatal(err)
	}
	b.fresh = *fresh
	t.Run("suites", func(t *testing.T) {
		each(folders(b.mutants), func(folder string) {
			t.Run(folder, func(t *testing.T) { b.testSuite(t, folder) })
		})
	})
	var tried, wereKept atomic.Int32
	t.Run("board", func(t *testing.T) {
		each(b.mutants, func(m mutant) {
			t.Run(m.name, func(t *testing.T) {
				tried.Add(1)
				if b.testMutant(t, m) {
					wereKept.Add(1)
				}
			})
		})
	})
	fmt.Printf("%d mutants of %d were selected; the results of %d were kept from earlier runs\n", tried.Load(), len(b.mutants), wereKept.Load())
	if err := b.report(os.Stdout); err != nil {
		t.Error(err)
	}
}

func (b *board) testSuite(t *testing.T, folder string) {
	r, wasKept, err := b.settleSuite(t.Context(), folder)
	switch {
	case err != nil:
		t.Fatal(err)
	case wasKept:
		t.Logf("has passed before, in %.1f s", r.Seconds)
	default:
		t.Logf("passes in %.1f s", r.Seconds)
	}
}

func (b *board) testMutant(t *testing.T, m mutant) (wasKept bool) {
	r, wasKept, err := b.settle(t.Context(), m)
	switch {
	case errors.Is(err, errSurvives):
		t.Fatalf("%v, and with it nothing checks %s", err, m.breaks)
	case err != nil:
		t.Fatalf("fault of the board: %v", err)
	case wasKept:
		t.Logf("was killed before, in %.1f s by %s", r.Seconds, r.Killer)
	default:
		t.Logf("killed in %.1f s by %s", r.Seconds, r.Killer)
	}
	return wasKept
}

// TestFiguresOfTheBoard prints the figures of the results that are kept, and tries nothing.
func TestFiguresOfTheBoard(t *testing.T) {
	if !*figures {
		t.Skip("it measures: run by make figures")
	}
	b, err := newBoard(t.Context(), root(), t.TempDir(), keptResults(), all())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.printFigures(os.Stdout); err != nil {
		t.Error(err)
	}
}
