package behindtest

import (
	"fmt"
	"testing"
)

// verdict names the Pods of a life that were there without their database. It is final once all is
// gone.
func verdict(all []*thing) (problems []string) {
	databases := map[string]*thing{}
	appLeaving := int64(0)
	for _, t := range all {
		switch t.kind {
		case databaseKind.Kind:
			databases[t.name] = t
		case appKind.Kind:
			appLeaving = t.leaving
		}
	}
	for _, pod := range all {
		if pod.kind != podKind.Kind {
			continue
		}
		on := databases[pod.uses]
		switch {
		case on == nil || pod.born < on.born:
			problems = append(problems, fmt.Sprintf("G10: %s uses a database before it exists", pod))
		case on.gone != 0 && !hadLeft(pod, on, appLeaving):
			problems = append(problems, fmt.Sprintf("G10: %s has outlived its database: %s", pod, on))
		}
	}
	return problems
}

// hadLeft reports whether a Pod used its database no longer when that went. One that had ended
// counts as gone then, unless the app was in deletion.
func hadLeft(pod, on *thing, appLeaving int64) bool {
	before := func(revision int64) bool { return revision != 0 && revision < on.gone }
	return before(pod.gone) || before(pod.ended) && !before(appLeaving)
}

func TestTheVerdictOnSmallHistories(t *testing.T) {
	for name, c := range map[string]struct {
		pod, database thing
		appLeaving    int64
		problems      int
	}{
		"the Pod goes first":                  {thing{born: 2, gone: 5}, thing{born: 1, gone: 6}, 3, 0},
		"the Pod goes, the database stays":    {thing{born: 2, gone: 5}, thing{born: 1}, 3, 0},
		"both stay":                           {thing{born: 2, leaving: 4}, thing{born: 1, leaving: 3}, 3, 0},
		"the database goes first":             {thing{born: 2, gone: 7}, thing{born: 1, gone: 6}, 3, 1},
		"the Pod stays":                       {thing{born: 2, leaving: 4}, thing{born: 1, gone: 6}, 3, 1},
		"the Pod comes after the database":    {thing{born: 8, gone: 9}, thing{born: 1, gone: 6}, 3, 1},
		"the Pod comes before the database":   {thing{born: 1, gone: 3}, thing{born: 2, gone: 6}, 3, 1},
		"the Pod has ended":                   {thing{born: 2, ended: 5}, thing{born: 1, gone: 6}, 0, 0},
		"the Pod has ended, and the app goes": {thing{born: 2, ended: 5}, thing{born: 1, gone: 6}, 3, 1},
		"the Pod ends later":                  {thing{born: 2, ended: 7}, thing{born: 1, gone: 6}, 0, 1},
		"the app goes later":                  {thing{born: 2, ended: 5}, thing{born: 1, gone: 6}, 7, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.pod.kind, c.pod.uses = podKind.Kind, "x"
			c.database.kind, c.database.name = databaseKind.Kind, "x"
			a := &thing{kind: appKind.Kind, leaving: c.appLeaving}
			if got := verdict([]*thing{a, &c.pod, &c.database}); len(got) != c.problems {
				t.Errorf("got %q, want %d problems", got, c.problems)
			}
		})
	}
	if got := verdict([]*thing{{kind: podKind.Kind, uses: "x"}}); len(got) != 1 {
		t.Errorf("a Pod without a database: %q", got)
	}
}
