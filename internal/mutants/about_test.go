package mutants

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// failedTest finds the failures in the output of the go command's tests, failedSpec in that of
	// ginkgo's, and crashed a process that ended by itself.
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	failedSpec = regexp.MustCompile(`(?m)^\s*\[(?:FAIL|PANICKED!|TIMEDOUT)\] (.*)`)
	crashed    = regexp.MustCompile(`(?m)\b(?:panic|fatal error): (.*)`)
	// nodeOf is what ginkgo puts into a spec's name: the node that failed.
	nodeOf = regexp.MustCompile(`\[[A-Z][A-Za-z]*( \([A-Za-z]+\))?\] ?`)
)

// failures returns the failures of the tests about the rule, and all others. A process that crashed
// while it ran no others counts, too: nobody else says which test it was.
func (s suite) failures(output []byte) (about, others []string) {
	if s.focus != "" {
		focus := regexp.MustCompile(s.focus)
		for _, match := range failedSpec.FindAllSubmatch(output, -1) {
			if name := strings.TrimSpace(string(match[1])); focus.MatchString(nodeOf.ReplaceAllString(name, "")) {
				about = append(about, name)
			} else {
				others = append(others, name)
			}
		}
	} else {
		for _, match := range failedTest.FindAllSubmatch(output, -1) {
			if name := string(match[1]); selects(s.run, name) {
				about = append(about, name)
			} else {
				others = append(others, name)
			}
		}
	}
	if len(others) == 0 {
		for _, match := range crashed.FindAllSubmatch(output, -1) {
			about = append(about, strings.TrimSpace(string(match[0])))
		}
	}
	return about, others
}

// selects reports whether -run selects a test or what contains it, as package testing does: level
// by level between slashes, for one of the alternatives.
func selects(run, name string) bool {
	return slices.ContainsFunc(split(run, '|'), func(alternative string) bool {
		names := strings.Split(name, "/")
		for i, pattern := range split(alternative, '/') {
			if i < len(names) && !regexp.MustCompile(pattern).MatchString(names[i]) {
				return false
			}
		}
		return true
	})
}

// split splits a pattern at a character outside of brackets.
func split(pattern string, at rune) (parts []string) {
	depth, start, escaped := 0, 0, false
	for i, r := range pattern {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '(' || r == '[':
			depth++
		case r == ')' || r == ']':
			depth--
		case r == at && depth == 0:
			parts, start = append(parts, pattern[start:i]), i+1
		}
	}
	return append(parts, pattern[start:])
}

// TestOnlyFailuresOfTestsAboutTheRuleCount is what keeps a false failure from being a false kill.
func TestOnlyFailuresOfTestsAboutTheRuleCount(t *testing.T) {
	for name, c := range map[string]struct {
		run, focus, output string
		about, others      []string
	}{
		"a test":                  {run: "TestA", output: "--- FAIL: TestA (0.00s)\n", about: []string{"TestA"}},
		"another one":             {run: "TestA$", output: "--- FAIL: TestAB (0.00s)\n", others: []string{"TestAB"}},
		"a part of it":            {run: "TestA/b", output: "--- FAIL: TestA (0.0s)\n    --- FAIL: TestA/b (0.0s)\n", about: []string{"TestA", "TestA/b"}},
		"another part":            {run: "TestA/b", output: "    --- FAIL: TestA/c (0.0s)\n", others: []string{"TestA/c"}},
		"an alternative":          {run: "TestA/b|TestC", output: "    --- FAIL: TestC/d (0.0s)\n", about: []string{"TestC/d"}},
		"a bracketed alternative": {run: "Test(A|B)/b", output: "    --- FAIL: TestB/b (0.0s)\n", about: []string{"TestB/b"}},
		"a spec": {
			run: "TestSuite", focus: "does it", output: "  [FAIL] The operator [It] does it at once\n--- FAIL: TestSuite (1.0s)\n",
			about: []string{"The operator [It] does it at once"},
		},
		"what comes before a spec": {
			focus: "The operator does it", output: "  [FAIL] The operator [BeforeEach] does it\n", about: []string{"The operator [BeforeEach] does it"},
		},
		"a spec that panics": {focus: "does it", output: "  [PANICKED!] The operator [It] does it\n", about: []string{"The operator [It] does it"}},
		"another spec":       {focus: "does it", output: "  [FAIL] The operator [It] does more\n", others: []string{"The operator [It] does more"}},
		"the suite's end":    {focus: "does it", output: "  [FAIL] [AfterSuite]\n", others: []string{"[AfterSuite]"}},
		"only the bootstrap": {run: "TestSuite", focus: "does it", output: "--- FAIL: TestSuite (1.0s)\n"},
		"a crash":            {run: "TestA", output: "panic: oh\n\ngoroutine 7\n", about: []string{"panic: oh"}},
		"a crash elsewhere":  {focus: "does it", output: "  [FAIL] [AfterSuite]\npanic: oh\n", others: []string{"[AfterSuite]"}},
	} {
		about, others := suite{run: c.run, focus: c.focus}.failures([]byte(c.output))
		if !slices.Equal(about, c.about) || !slices.Equal(others, c.others) {
			t.Errorf("%s: got %q and %q, want %q and %q", name, about, others, c.about, c.others)
		}
	}
}
