package interlock_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestAGuardAsksAgainAboutDependentsThatItsCacheDoesNotShow: no event follows when they leave.
func TestAGuardAsksAgainAboutDependentsThatItsCacheDoesNotShow(t *testing.T) {
	for name, dependents := range map[string]framework.Secondary[*App]{
		"in namespaces that are not watched": {Namespaces: []string{"other"}},
		"without what tells of their claims": {Transform: &framework.Transform[*App]{Name: "no labels", Prune: func(app *App) { app.Labels = nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			openShop(t, func(s *shop) {
				s.owners.stop()
				s.owners.register = func(op *framework.Operator) error {
					return (&interlock.Guard[*Database, *App]{Relation: databases, Dependents: dependents}).Register(op)
				}
				s.start(s.owners, "owners")
				p := s.database("p")
				d := s.app("d", "p")
				s.pass(time.Second)
				s.delete(p)
				s.pass(time.Minute)
				s.expect([]client.Object{p, d}, nil, d)
				s.delete(d)
				s.pass(2 * time.Minute)
				s.expect(nil, []client.Object{p, d})
			})
		})
	}
}

func TestAGuardNeedsNoMoreThanTheMetadataOfDependents(t *testing.T) {
	type metadata = metav1.PartialObjectMetadata
	openShop(t, func(s *shop) {
		s.owners.stop()
		s.owners.register = func(op *framework.Operator) error {
			relation := interlock.Relation[*metadata]{Name: databases.Name, Providers: func(*metadata) []types.NamespacedName { return nil }}
			return (&interlock.Guard[*Database, *metadata]{
				Relation: relation, Dependents: framework.Secondary[*metadata]{GroupVersionKind: shopVersion.WithKind("App")},
			}).Register(op)
		}
		s.start(s.owners, "owners")
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil, d)
		if notes := s.reported("InUse"); len(notes) == 0 || !strings.HasPrefix(notes[0], "App default/d may be using it") {
			t.Errorf("reported was %q", notes)
		}
		s.delete(d)
		s.pass(time.Second)
		s.expect(nil, []client.Object{p, d})
	})
}
