package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// errNotMeasured is wrapped by errors that say how to measure something.
var errNotMeasured = errors.New("not measured")

// measurement yields figures of a module.
type measurement struct {
	figures []string
	// of returns their values in that order, without the last ones if they are not measured. Values
	// that it returns with an error are printed, too. Remarks are written to notes.
	of func(root string, notes io.Writer) ([]string, error)
}

// areas are the figures by area, in the order in which they are printed.
var areas = map[string][]measurement{
	"house": {
		{[]string{"test_seconds"}, kept("bin/test_seconds", "make test")},
		{[]string{"ci_seconds"}, kept("bin/ci_seconds", ".ci/run")},
		{[]string{"user_modules"}, userModules},
		{[]string{"largest_package_lines"}, largestPackage},
		{[]string{"mutants_total", "mutants_killed"}, mutants},
	},
	"testkit": {
		{[]string{"testkit_lives_per_second", "testkit_bad_operators_found", "testkit_false_alarms"}, testkit},
		{[]string{"testkit_author_lines_prefixedpod"}, authorLines("prefixedpod")},
		{[]string{"testkit_author_lines_webpage"}, authorLines("webpage")},
	},
	"seeing": {
		printedBy("benchmarks", "./runs", "TestFiguresOfSeeing", "noop_run_with_metrics_vs_without"),
		printedBy(".", "./framework/why", "TestSizesAreEstimatedWell", "record_bytes_per_run"),
		printedBy(".", "./framework/plan", "TestFiguresOfPlan", "plan_false"),
		printedBy(".", "./internal/simulation", "TestFiguresOfContests", "fights_found", "fights_false"),
		printedBy(".", "./framework", "TestNoValueLeaks", "secret_leaks"),
	},
	"onramp": {
		printedBy("controllerruntime", ".", "TestSideBySideOnAServer", "adapter_runs_per_object", "adapter_writes_per_object", "adapter_conflicts_per_object"),
	},
}

func main() {
	area := flag.String("area", "", "what the figures are about")
	flag.Parse()
	root, err := os.Getwd()
	if err == nil {
		err = run(root, *area, areas, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run prints the figures of an area of the module at a root to out, and all else to notes.
func run(root, area string, areas map[string][]measurement, out, notes io.Writer) error {
	measurements, ok := areas[area]
	if !ok {
		return fmt.Errorf("area %q: there are: %s", area, strings.Join(slices.Sorted(maps.Keys(areas)), ", "))
	}
	var failures error
	for _, m := range measurements {
		values, err := m.of(root, notes)
		switch {
		case errors.Is(err, errNotMeasured):
			fmt.Fprintf(notes, "%s: %v\n", strings.Join(m.figures, ", "), err)
			continue
		case err != nil:
			failures = errors.Join(failures, fmt.Errorf("%s: %w", strings.Join(m.figures, ", "), err))
		}
		for i, value := range values {
			fmt.Fprintf(out, "figure %s %s\n", m.figures[i], value)
		}
	}
	return failures
}
