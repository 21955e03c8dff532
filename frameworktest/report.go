package frameworktest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

// Report is what [Everywhere] found.
type Report struct {
	// Lives is how many lives were lived, with the undisturbed one.
	Lives int

	scenario *Scenario
	test     string
	calm     *outcome
	failed   []*outcome // the shortest first
	took     time.Duration
	rights   map[network.Request]bool
}

// Failed returns the names of the points or random walks that failed, the shortest first.
func (r *Report) Failed() []string {
	var names []string
	for _, o := range r.failed {
		names = append(names, o.name)
	}
	return names
}

// Writes returns the operator's writes in the undisturbed life.
func (r *Report) Writes() []Write { return slices.Clone(r.calm.writes) }

// print fails the test if something failed.
func (r *Report) print(t testing.TB) {
	t.Helper()
	if len(r.failed) == 0 {
		t.Logf("%d lives in %v, all came to the same end", r.Lives, r.took.Round(time.Millisecond))
		if len(r.calm.writes) == 0 {
			t.Logf("frameworktest: the operator wrote nothing, so no write could fail: does the story have what it reconciles?")
		}
		return
	}
	t.Error(r.String())
}

// String returns the failure as a text, or says that there is none.
func (r *Report) String() string {
	if len(r.failed) == 0 {
		return fmt.Sprintf("%d lives came to the same end", r.Lives)
	}
	worst := r.failed[0]
	var b strings.Builder
	if worst == r.calm {
		b.WriteString(worst.name + ": the story fails without any fault, so none was tried\n\n")
	} else {
		fmt.Fprintf(&b, "%d of %d lives failed. The shortest: %s\n\n", len(r.failed), r.Lives, worst.title())
	}
	for _, failure := range worst.failures {
		fmt.Fprintf(&b, "  %s\n", failure)
	}
	b.WriteString("\n")
	if worst == r.calm {
		b.WriteString(column(worst.lines))
	} else {
		b.WriteString(sideBySide("without a fault", r.calm.lines, worst.name, worst.lines))
	}
	b.WriteString(logged(worst.log))
	if others := r.Failed()[1:]; len(others) > 0 {
		fmt.Fprintf(&b, "\nalso: %s\n", strings.Join(others[:min(len(others), 20)], ", "))
	}
	fmt.Fprintf(&b, "\nto repeat it: %s=%s go test -run '^%s$' .\n", OnlyVariable, worst.name, strings.ReplaceAll(regexp.QuoteMeta(r.test), "/", "$/^"))
	return b.String()
}

func logged(log []string) string {
	if len(log) == 0 {
		return ""
	}
	return "\nthe operator's log:\n  " + strings.Join(log[max(0, len(log)-10):], "\n  ") + "\n"
}

// title says in words where a life broke.
func (o *outcome) title() string {
	s, err := parseSpot(o.name)
	if err != nil || s.write == 0 || s.write > len(o.writes) {
		return o.name
	}
	return fmt.Sprintf("%s, at write %d: %s", o.name, s.write, o.writes[s.write-1])
}

// line is one line of a timeline.
type line struct {
	at        time.Duration
	after     int // the number of the change, or that of the change before a note
	who, what string
}

func (l line) String() string {
	first, _, _ := strings.Cut(l.what, "\n")
	return fmt.Sprintf("%8.1fs %-11s %s", l.at.Seconds(), l.who, first)
}

// keptRows of a timeline are printed, the rest is counted.
const keptRows = 60

func column(lines []line) string {
	var b strings.Builder
	for i, l := range lines {
		if i == keptRows {
			fmt.Fprintf(&b, "  ... and %d more\n", len(lines)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", l)
	}
	return b.String()
}

// width of a column.
const width = 66

func sideBySide(leftTitle string, left []line, rightTitle string, right []line) string {
	var b strings.Builder
	row := func(l, r string) { fmt.Fprintf(&b, "  %-*s | %s\n", width, cut(l), r) }
	row(leftTitle, rightTitle)
	row(strings.Repeat("-", width), strings.Repeat("-", width))
	for i := range max(len(left), len(right)) {
		if i == keptRows {
			fmt.Fprintf(&b, "  ... and %d | %d more\n", max(0, len(left)-i), max(0, len(right)-i))
			break
		}
		var l, r string
		if i < len(left) {
			l = left[i].String()
		}
		if i < len(right) {
			r = right[i].String()
		}
		row(l, r)
	}
	return b.String()
}

func cut(text string) string {
	if len(text) > width {
		return text[:width-1] + "…"
	}
	return text
}
