package interlock_test

import (
	"bytes"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestAReleaseThatOutlastsItsSenderTakesNoClaimOff: an app refers to no database for a while. That
// its claim be taken off does not arrive until it has been given up, and the app has been granted
// the database that it refers to again. In one case it is sent for the second time then, as
// somebody has changed the app before the first one arrived.
func TestAReleaseThatOutlastsItsSenderTakesNoClaimOff(t *testing.T) {
	for name, refused := range map[string]int{"at once": 0, "after one that was refused": 1} {
		t.Run(name, func(t *testing.T) {
			openShop(t, func(s *shop) {
				p := s.database("p")
				d := s.app("d", "p")
				s.pass(time.Second)
				releases, late := 0, []byte(nil)
				s.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource != "apps" || r.Verb != "apply" || bytes.Contains(r.Body, []byte(databases.Annotation())) {
						return apimodel.Fault{}
					}
					if releases++; releases <= refused {
						return apimodel.Fault{Delay: 5 * time.Second}
					}
					late = r.Body
					return apimodel.Fault{Drop: true}
				})
				s.refer(d)
				s.pass(2 * time.Second)
				changed := s.live(d)
				changed.Labels["by"] = "another"
				noError(t, s.admin.Update(s.Context(), changed))
				s.pass(10 * time.Second)
				s.refer(d, "p")
				s.pass(5 * time.Minute)
				s.expect([]client.Object{p, d}, nil, d)
				s.disturb(nil)
				if late == nil {
					t.Fatal("nothing is late")
				}
				// It is carried out, or refused.
				_ = s.admin.Patch(s.Context(), changed, client.RawPatch(types.ApplyPatchType, late), client.FieldOwner(databases.Name), client.ForceOwnership)
				s.apps.stop() // as it might put the claim on again in time
				s.delete(p)
				s.pass(time.Minute)
				s.expect([]client.Object{p, d}, nil, d)
				s.start(s.apps, "apps")
			})
		})
	}
}

// TestAClaimIsReliedUponOnlyIfTheDependentIsStillToHaveIt: what an instance sees when it comes up
// may be over, and the one before it may have sent what follows from that. It has the lease of the
// one before, so it need not write the claims in its own name first.
func TestAClaimIsReliedUponOnlyIfTheDependentIsStillToHaveIt(t *testing.T) {
	for name, change := range map[string]func(s *shop, d *App){
		"not if it is in deletion":                func(s *shop, d *App) { s.delete(d) },
		"not if it does not refer to it any more": func(s *shop, d *App) { s.refer(d) },
	} {
		t.Run(name, func(t *testing.T) {
			openShop(t, func(s *shop) {
				s.database("p")
				d := s.app("d", "p")
				s.apps.stop()
				s.apps.elected = true
				s.start(s.apps, "apps")
				s.pass(time.Minute)
				s.apps.stop()
				s.requests()
				s.model.Lag("apps", time.Minute)
				s.disturb(func(r apimodel.Request) apimodel.Fault {
					if r.Resource == "apps" && r.Verb == "get" {
						change(s, d)
						s.fault = nil // it is called under the lock
					}
					return apimodel.Fault{}
				})
				s.start(s.apps, "apps")
				s.pass(40 * time.Second)
				if sent := s.requests(); count(sent, "apps: get apps d") == 0 || count(sent, "apps: get databases") != 0 {
					t.Errorf("requests: %q", sent)
				}
			})
		})
	}
}
