package mutants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// mutant is one broken variant.
type mutant struct {
	// name says what is done wrong.
	name string
	// breaks is the guarantee, by its number.
	breaks string
	// file is relative to the module's root. old occurs there exactly once; new stands in its
	// place.
	file, old, new string
	// kills are the tests that are about the rule, in the order in which they are tried: one has to
	// fail.
	kills []suite
	// hangs says why the tests do not end with it: then exceeding their time is a kill, too.
	hangs string
}

// suite is tests of one package of the default run.
type suite struct {
	// folder is the package, relative to the module's root.
	folder string
	// run and focus restrict it as -run and ginkgo's -focus do, to the tests about the rule. Only
	// their failures count: on a busy machine, others may fail for reasons of their own.
	run, focus string
}

// all is the board.
func all() []mutant {
	return slices.Concat(
		ofScheduler, ofLedger, ofStore, ofKeeping, ofEventSource, ofGuest, ofAuthor, ofFramework, ofForms, ofLookups, ofLeader, ofKinds, ofDynamic, ofIncarnations, ofSimulation, ofSeeing, ofContests,
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

// in returns the mutant's file below a root as it is, and with the mutant in it.
func (m mutant) in(root string) (source, mutated []byte, err error) {
	source, err = os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, nil, err
	}
	if n := bytes.Count(source, []byte(m.old)); n != 1 {
		return nil, nil, fmt.Errorf("%s: the snippet occurs %d times, want once: has the rule moved?\n%s", m.file, n, m.old)
	}
	return source, bytes.Replace(source, []byte(m.old), []byte(m.new), 1), nil
}

// folders returns the packages of the suites that have to notice the mutants, each once, sorted.
func folders(mutants []mutant) []string {
	var found []string
	for _, m := range mutants {
		for _, s := range m.kills {
			found = append(found, s.folder)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
