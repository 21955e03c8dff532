package freshnesstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/fieldpath"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/timeline"
)

// contests are the fights and loops that runs have named. It is an observer.
type contests struct {
	mu     sync.Mutex // guards the fields below
	fights []timeline.Fight
	loops  []timeline.Record
}

// RunEnded keeps those of a run.
func (c *contests) RunEnded(_ string, _ types.NamespacedName, r timeline.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fights = append(c.fights, r.Fights...)
	if r.Loop != nil {
		c.loops = append(c.loops, r)
	}
}

// named returns how many runs named fights and loops.
func (c *contests) named() (fights, loops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fights), len(c.loops)
}

// judgeContests judges that what was named is so: fields were set back to one value twice at least
// between changes of others, and no change of others has caused a run of a loop.
func (w *world) judgeContests() (problems []string) {
	foreign, _, _ := w.foreigners.did()
	v, c, events := &verdict{foreign: foreign}, &w.contests, w.truth.Events()
	c.mu.Lock()
	defer c.mu.Unlock()
	judged := map[string]bool{}
	for _, f := range c.fights {
		for _, field := range strings.Split(f.Fields, ", ") {
			name := f.Kind + " " + f.Namespace + "/" + f.Name + " " + field
			if judged[name] || f.Rival != "" || strings.Contains(field, " more") {
				continue
			}
			judged[name] = true
			if back := v.setBack(events, f, field); back < 2 {
				v.report("a fight that is none: %v: %s was set back %d times", f, field, back)
			}
		}
	}
	for _, r := range c.loops {
		for _, cause := range r.Causes {
			change, is := cause.(timeline.Resource)
			if is && change.Action != timeline.Deleted && v.foreign[versionIn(change.NewVersion)] {
				v.report("a loop that is none: %v, because of %v", r.Loop, change)
			}
		}
	}
	return v.problems
}

func versionIn(text string) (version int64) {
	_, _ = fmt.Sscan(text, &version) // 0 is no version
	return version
}

// setBack returns how often in a row a field was given one value after others had changed it.
func (v *verdict) setBack(events []testenv.Event, f timeline.Fight, field string) (most int) {
	resource := map[string]string{"WebPage": "/webpages/", "ConfigMap": "/configmaps/", "Tool": "/tools/"}[f.Kind]
	var before runtime.Object
	given, theirs, back := "", false, 0
	for _, e := range events {
		if !strings.Contains(e.Key, resource) || !strings.HasSuffix(e.Key, "/"+f.Namespace+"/"+f.Name) {
			continue
		}
		if e.Deleted {
			before, given, theirs, back = nil, "", false, 0
			continue
		}
		now, err := e.Object()
		if err != nil {
			v.report("%v: %v", e, err)
			continue
		}
		changed, value := before == nil, ""
		if before != nil {
			changes, _ := fieldpath.Changes(before, now, 1000)
			for _, c := range changes {
				if c.Path == field {
					text, _ := json.Marshal(c.New) // it was JSON
					changed, value = true, string(text)
				}
			}
		}
		before = now
		switch {
		case !changed:
		case v.foreign[e.Revision]:
			theirs = true
		case value == given && theirs:
			back++
			theirs, most = false, max(most, back)
		default:
			given, theirs, back = value, false, 0
		}
	}
	return most
}
