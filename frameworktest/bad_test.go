package frameworktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/kitfigures"
)

// pair is an operator with a known flaw, and its twin without.
type pair struct {
	name   string
	story  func(w *frameworktest.World)
	always func(v frameworktest.Version) error
	mask   func(o anyObject)
	bad    operator
	// good is the twin, or twin names the row that has it, if the story there is at least as long.
	good operator
	twin string
	// ordered stories end as they do because their users wait, which they do not in random walks.
	ordered bool
	// virtual is why the story is told in virtual time alone.
	virtual string
	// found are all kinds of points at which the flaw is found, separated by spaces.
	found string
	// first is how the report begins to name the shortest life that fails, and says is part of why it
	// fails.
	first, says string
}

func pairs() []pair { return slices.Concat(objectPairs(), externalPairs(), pointPairs()) }

func (p pair) scenario(o operator) frameworktest.Scenario {
	return frameworktest.Scenario{
		CRDs: "testdata", Scheme: siteScheme, RegisterWith: o, Story: p.story, Always: p.always, Mask: p.mask,
	}
}

// kinds returns the kinds of points, once each, in the order of their names.
func kinds(points []string) string {
	var all []string
	for _, point := range points {
		kind, _, _ := strings.Cut(point, "@")
		all = append(all, kind)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// skipShort skips what needs all points: with -short, a tenth of them is tried.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs all points")
	}
}

// skipRaced skips what shows flaws of operators, in code that their good twins run with the race
// detector.
func skipRaced(t *testing.T) {
	t.Helper()
	skipShort(t)
	if !depth.Of(false, true, true) {
		t.Skip("the race detector sees the good twins")
	}
}

// TestKnownBadOperatorsAreFound shows what a scenario is worth. Each of these operators works as
// long as nothing breaks, or nearly. Each is found at the points that its flaw is about, and at no
// others, and the report says what happens there.
func TestKnownBadOperatorsAreFound(t *testing.T) {
	skipRaced(t)
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t, p.scenario(p.bad).Explore(t))
		})
	}
}

func (p pair) check(t *testing.T, report *frameworktest.Report) {
	t.Helper()
	failed, text := report.Failed(), report.String()
	if found := kinds(failed); found != p.found {
		t.Errorf("it is found by %q, want %q", found, p.found)
	}
	if len(failed) == 0 {
		return
	}
	if all := report.Failures(failed[0]); len(all) != 1 || !strings.Contains(all[0], p.says) {
		t.Errorf("it is found because of %q, want one that says %q", all, p.says)
	}
	repeat := "\nto repeat it: " + frameworktest.OnlyVariable + "=" + failed[0] + " go test -run '^TestKnownBadOperatorsAreFound$/^"
	title := "The shortest: " + p.first
	if p.first == "no-fault" {
		title = "no-fault: the story fails without any fault, so none was tried"
	}
	for _, part := range []string{title, repeat} {
		if !strings.Contains(text, part) {
			t.Errorf("the report lacks %q", part)
		}
	}
	if t.Failed() {
		t.Log("\n" + text)
	}
}

// TestGoodTwinsPass shows that it is the flaw that is found, and not the way in which it is tested.
func TestGoodTwinsPass(t *testing.T) {
	good := map[string]bool{}
	for _, p := range pairs() {
		if p.good == nil {
			continue
		}
		good[p.name] = true
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			frameworktest.Everywhere(t, p.scenario(p.good))
		})
	}
	for _, p := range pairs() {
		if p.good == nil && !good[p.twin] {
			t.Errorf("%s has no good twin", p.name)
		}
	}
}

// TestGoodTwinsPassInRandomWalks with copies of the story in other namespaces, where names that
// follow from UIDs are others.
func TestGoodTwinsPassInRandomWalks(t *testing.T) {
	for _, p := range pairs() {
		if p.good == nil || p.ordered {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			frameworktest.Everywhere(t, p.scenario(p.good).Random(8))
		})
	}
}

// TestEachPointFindsAFlaw runs bad operators with points of one kind alone: no kind can be dropped,
// or lose its effect, without a failure here. The flaws of most kinds are found by no other, as
// TestKnownBadOperatorsAreFound shows. Crashes after the commit and after the answer fall together:
// what a process learned at its end is lost with it.
func TestEachPointFindsAFlaw(t *testing.T) {
	skipRaced(t)
	of := map[frameworktest.Point]string{
		frameworktest.CrashBefore:    "ignores what was there before it",
		frameworktest.CrashCommitted: "careless",
		frameworktest.CrashAnswered:  "careless",
		frameworktest.LostAnswer:     "repeats what got lost",
		frameworktest.Refused429:     "takes too many requests for a quota",
		frameworktest.Refused500:     "takes an internal error for an answer",
		frameworktest.Refused409:     "takes a conflict for an answer",
		frameworktest.Failed500:      "repeats what failed",
		frameworktest.Gap:            "watches once",
		frameworktest.Rival:          "loads its state at the start",
		frameworktest.StaleServer:    "lists what may be old",
		frameworktest.Late:           "gives up on what is old",
		frameworktest.Restart:        "does not watch what it makes",
		frameworktest.Idle:           "has a heartbeat that ends with the site",
		frameworktest.FailedRead:     "takes a failed read for an empty answer",
		frameworktest.SlowAnswer:     "takes a slow answer for the last word",
	}
	all := pairs()
	for _, point := range frameworktest.AllPoints() {
		t.Run(point.String(), func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(all, func(p pair) bool { return p.name == of[point] })
			if i < 0 {
				t.Fatal("no operator is found by it")
			}
			s := all[i].scenario(all[i].bad)
			s.Points = []frameworktest.Point{point}
			if failed := kinds(s.Explore(t).Failed()); failed != point.String() {
				t.Errorf("%s: found by %q", of[point], failed)
			}
			// Watches end in an idle hour, too.
			shared := of[point] == "careless" || all[i].found == "gap idle"
			if alone := all[i].found == point.String(); !alone && !shared {
				t.Errorf("%s is found by %s, too", of[point], all[i].found)
			}
		})
	}
}

// TestOnlyAlwaysFindsWhatIsTidiedUp before the end: without it, all lives come to the same end.
func TestOnlyAlwaysFindsWhatIsTidiedUp(t *testing.T) {
	t.Parallel()
	frameworktest.Everywhere(t, pair{story: appears}.scenario(tidiesUp))
}

// TestAFailureIsRepeatedByItsName, with the one point alone, and by those of another name not.
func TestAFailureIsRepeatedByItsName(t *testing.T) {
	skipShort(t)
	for only, want := range map[string]string{"crash-committed@1": "crash-committed", "lost-answer@1": ""} {
		t.Setenv(frameworktest.OnlyVariable, only)
		report := pair{story: appears}.scenario(careless).Explore(t)
		if found := kinds(report.Failed()); report.Lives != 2 || found != want {
			t.Errorf("%s: %d lives, found by %q, want 2 and %q", only, report.Lives, found, want)
		}
	}
}

// TestTheTimelineIsInTheOrderOfEvents also within one instant of virtual time.
func TestTheTimelineIsInTheOrderOfEvents(t *testing.T) {
	skipShort(t)
	t.Parallel()
	s := pair{story: appears}.scenario(careless)
	s.Points = []frameworktest.Point{frameworktest.CrashCommitted}
	var life []string
	for row := range strings.Lines(s.Explore(t).String()) {
		if _, right, two := strings.Cut(row, " | "); two {
			life = append(life, strings.Join(strings.Fields(right)[1:], " "))
		}
	}
	want := []string{
		"", "", "user create sites default/hello", "operator create configmaps default/hello-*",
		"fault process 1 dies after the commit of create configmaps default/hello", "fault another process starts",
		"operator create configmaps default/hello-*", "operator patch status of sites default/hello",
	}
	if !slices.EqualFunc(life, want, func(is, want string) bool { return strings.HasPrefix(is, strings.TrimSuffix(want, "*")) }) {
		t.Errorf("the life is %q, want %q", life, want)
	}
}

// TestFigures counts the bad operators that are found, and the good twins that are not good enough.
func TestFigures(t *testing.T) {
	kitfigures.Skip(t)
	found, wrong := 0, 0
	for _, p := range pairs() {
		if len(p.scenario(p.bad).Explore(t).Failed()) > 0 {
			found++
		}
		if p.good != nil {
			wrong += len(p.scenario(p.good).Explore(t).Failed())
		}
	}
	fmt.Printf("kit bad_operators_found %d\nkit false_alarms %d\n", found, wrong)
}
