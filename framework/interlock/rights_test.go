package interlock_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// rights are those that docs/concepts/interlock.md names, as VERB RESOURCE. Streaming lists are
// watches.
var rights = map[string][]string{
	"owners": {"get databases", "list databases", "watch databases", "patch databases", "list apps", "watch apps", "create events", "patch events"},
	"apps": {
		"get apps", "list apps", "watch apps", "patch apps", "patch apps/status", "get databases", "list databases", "watch databases", "create events", "patch events",
	},
}

// TestWhatEachSideAsksForNeedsTheRightsThatAreDocumented, with references that change, deletions,
// and a guard that emits events.
func TestWhatEachSideAsksForNeedsTheRightsThatAreDocumented(t *testing.T) {
	openPlannedShop(t, func(s *shop, _ *planned) {
		var mu sync.Mutex
		asked := 0
		s.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			who, _, _ := strings.Cut(r.UserAgent, " ")
			verb := strings.ReplaceAll(r.Verb, "apply", "patch")
			if documented, operator := rights[who]; operator && verb != "discovery" {
				mu.Lock()
				defer mu.Unlock()
				asked++
				if asks := strings.TrimSuffix(verb+" "+r.Resource+"/"+r.Subresource, "/"); !slices.Contains(documented, asks) {
					t.Errorf("%s ask to %s", who, asks)
				}
			}
			return apimodel.Fault{}
		})
		s.apps.stop()
		s.owners.stop()
		s.start(s.owners, "owners")
		s.start(s.apps, "apps")
		p, q := s.database("p"), s.database("q")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.delete(p)
		s.pass(time.Minute)
		s.refer(d, "q")
		s.pass(time.Minute)
		s.apps.stop()
		s.start(s.apps, "apps") // and asks for the app itself
		s.delete(q)
		s.pass(time.Minute)
		s.delete(d)
		s.pass(time.Minute)
		s.expect(nil, []client.Object{p, q, d})
		mu.Lock()
		defer mu.Unlock()
		if asked == 0 {
			t.Error("nobody was seen to ask for anything")
		}
	})
}
