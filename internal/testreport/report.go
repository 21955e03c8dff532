package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is one of "go test -json": of tests (go doc test2json) or of a build (go help buildjson).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// report is what is known of the packages so far.
type report struct {
	out     io.Writer
	failed  bool
	running map[string]*tests // by package
	ended   int               // packages
	times   []took            // of packages
	tests   []took            // of tests and specs
}

// took is how long something took.
type took struct {
	name    string
	seconds float64
}

// tests are those of one package, until it ends.
type tests struct {
	order   []string            // of the names; empty is what belongs to no test
	lines   map[string][]string // by name
	results map[string]string   // by name: pass, skip or fail
}

func newReport(out io.Writer) *report { return &report{out: out, running: map[string]*tests{}} }

// read reads events until there are no more.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.add(e)
		} else if line != "" {
			fmt.Fprint(r.out, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	if e.Package == "" { // of a build
		r.failed = r.failed || e.Action == "build-fail"
		fmt.Fprint(r.out, e.Output)
		return
	}
	p := r.running[e.Package]
	if p == nil {
		p = &tests{lines: map[string][]string{}, results: map[string]string{}}
		r.running[e.Package] = p
	}
	switch e.Action {
	case "run":
		p.add(e.Test, "")
	case "output":
		p.add(e.Test, mutationWarning.ReplaceAllString(e.Output, ""))
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		r.failed = r.failed || e.Action == "fail"
		p.results[e.Test] = e.Action
		r.tests = append(r.tests, took{short(e.Package) + " " + e.Test, e.Elapsed})
	}
}

func (r *report) endPackage(e event) {
	r.ended++
	r.times = append(r.times, took{short(e.Package), e.Elapsed})
	if e.Action == "fail" {
		r.failed = true
		r.running[e.Package].printFailure(r.out)
	} else {
		r.running[e.Package].printSummary(r.out)
	}
	delete(r.running, e.Package)
}

// end prints the packages that have not ended and reports whether everything has passed.
func (r *report) end() (passed bool) {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		r.failed = true
		r.running[name].printFailure(r.out)
		fmt.Fprintf(r.out, "FAIL\t%s [has not ended]\n", name)
	}
	if r.ended == 0 && !r.failed {
		r.failed = true
		fmt.Fprintln(r.out, "FAIL\tno packages were tested")
	}
	return !r.failed
}

// add adds output, which need not be a whole line.
func (p *tests) add(test, output string) {
	if _, known := p.lines[test]; !known {
		p.order = append(p.order, test)
	}
	p.lines[test] = append(p.lines[test], output)
}

// printSummary prints the line about a package that has passed.
func (p *tests) printSummary(out io.Writer) {
	for _, line := range p.lines[""] {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			fmt.Fprint(out, line)
		}
	}
}

var (
	// frame is what is printed about a test and not by it, result how it ended.
	frame  = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME|ATTR|ARTIFACTS) `)
	result = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): `)
	// logged is the first line of a log, more another line of one.
	logged = regexp.MustCompile(`^    \S+\.go:\d+: `)
	more   = regexp.MustCompile(`^        `)
	// mutationWarning is what client-go says for each informer if tests look for changes to cached
	// objects, which is on purpose.
	mutationWarning = regexp.MustCompile(`W\d{4} [\d:.]+ +\d+ mutation_detector\.go:\d+\] Mutation detector is enabled, this will result in memory leakage\.\n`)
)

// printFailure prints test by test what a package that failed has to say, and at the end what
// belongs to no test.
func (p *tests) printFailure(out io.Writer) {
	for _, test := range p.order {
		if test == "" {
			continue
		}
		text := strings.Join(p.lines[test], "")
		switch p.results[test] {
		case "pass", "skip":
			fmt.Fprint(out, printed(text))
		case "fail":
			fmt.Fprint(out, resultFirst(text))
		default:
			fmt.Fprintf(out, "--- FAIL: %s (has not ended)\n%s", test, resultFirst(text))
		}
	}
	fmt.Fprint(out, strings.Join(p.lines[""], ""))
}

// printed returns what a test has printed apart from its logs.
func printed(text string) string {
	var kept strings.Builder
	inLog := false
	for line := range strings.Lines(text) {
		inLog = logged.MatchString(line) || inLog && more.MatchString(line)
		if !inLog && !frame.MatchString(line) && !result.MatchString(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// resultFirst returns the output of a test with the line about its result moved to the top.
func resultFirst(text string) string {
	var first, rest strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case frame.MatchString(line):
		case result.MatchString(line):
			first.WriteString(line)
		default:
			rest.WriteString(line)
		}
	}
	return first.String() + rest.String()
}

// addSpecs adds the times of specs from a file with lines as internal/spectimes writes them.
func (r *report) addSpecs(name string) error {
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(content)) {
		var spec struct {
			Suite, Spec string
			Seconds     float64
		}
		if err := json.Unmarshal([]byte(line), &spec); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.tests = append(r.tests, took{spec.Suite + ": " + spec.Spec, spec.Seconds})
	}
	return nil
}

// printSlowest prints a table of at most that many packages, and of as many tests and specs. A test
// includes the tests within it.
func (r *report) printSlowest(most int) {
	for _, table := range []struct {
		of    string
		times []took
	}{{"packages", r.times}, {"tests and specs", r.tests}} {
		slices.SortStableFunc(table.times, func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) })
		shown := table.times[:min(most, len(table.times))]
		fmt.Fprintf(r.out, "\nthe slowest %d of %d %s:\n", len(shown), len(table.times), table.of)
		for _, t := range shown {
			fmt.Fprintf(r.out, "%8.1f s  %s\n", t.seconds, t.name)
		}
	}
}

// short returns the path of a package without that of the module.
func short(path string) string { return strings.TrimPrefix(path, "github.com/evenkeel/evenkeel/") }
