package portedtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/frameworktest"
)

// guilty checks that the kit finds a scenario guilty at exactly these points: a line for each
// write, with the kinds of points at it, and one for each point that is about no write.
func guilty(t *testing.T, s frameworktest.Scenario, want ...string) {
	t.Helper()
	if testing.Short() {
		return // not all points are tried
	}
	report := s.Explore(t)
	t.Logf("guilty in %d of %d lives", len(report.Findings()), report.Lives)
	var found []string
	for _, f := range report.Findings() {
		point, _, _ := strings.Cut(f.Point, "@")
		if f.Write == (frameworktest.Write{}) {
			if point == frameworktest.FailedRead.String() {
				f.Point = point // whichever read it is
			}
			if !slices.Contains(found, f.Point) {
				found = append(found, f.Point)
			}
			continue
		}
		line := strings.TrimSpace(f.Write.Verb+" "+f.Write.Resource+" "+f.Write.Subresource) + ":"
		if i := slices.IndexFunc(found, func(known string) bool { return strings.HasPrefix(known, line) }); i < 0 {
			found = append(found, line+" "+point)
		} else if !slices.Contains(strings.Fields(found[i]), point) {
			found[i] += " " + point
		}
	}
	for i, line := range found {
		write, kinds, _ := strings.Cut(line, ":")
		if inOrder := inOrderOfPoints(strings.Fields(kinds)); len(inOrder) > 0 {
			found[i] = write + ": " + strings.Join(inOrder, " ")
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("guilty at\n\t%s\nwant\n\t%s\n%s", strings.Join(found, "\n\t"), strings.Join(want, "\n\t"), report)
	}
}

// inOrderOfPoints sorts names of points as the kit lists them.
func inOrderOfPoints(names []string) []string {
	var sorted []string
	for _, point := range frameworktest.AllPoints() {
		if slices.Contains(names, point.String()) {
			sorted = append(sorted, point.String())
		}
	}
	return sorted
}
