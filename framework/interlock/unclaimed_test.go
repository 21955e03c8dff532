package interlock_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestUnclaimedDependentsMayBeSelected: the API server is asked only for those that may be using
// the provider. It returns one that the cache does not have.
func TestUnclaimedDependentsMayBeSelected(t *testing.T) {
	const label = "shop.example.com/database"
	selected := interlock.Relation[*App]{
		Name: "selected.shop.example.com", Providers: databasesOf, Unclaimed: true,
		Select: func(provider types.NamespacedName) framework.Selection {
			return framework.Selection{Namespace: provider.Namespace, LabelSelector: label + "=" + provider.Name}
		},
	}
	openShopOf(t, func(_ *shop, op *framework.Operator) error {
		return (&interlock.Guard[*Database, *App]{Relation: selected}).Register(op)
	}, func(s *shop) {
		s.owners.stop() // it is about claims
		p := s.database("p")
		s.pass(time.Second)
		var asked []string
		s.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "apps" && r.Verb == "list" {
				asked = append(asked, r.Namespace+" "+r.LabelSelector)
			}
			return apimodel.Fault{}
		})
		s.model.Lag("apps", time.Hour) // so that the guard's cache shows none of these
		labelled := func(name, database string) *App {
			a := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{label: database}}}
			a.Spec.Databases = []string{database}
			noError(t, s.admin.Create(s.Context(), a))
			return a
		}
		d, another := labelled("d", "p"), labelled("another", "q")
		s.delete(p)
		s.pass(time.Minute / 2)
		s.expect([]client.Object{p, d}, nil)
		if want := []string{"default " + label + "=p"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %q, want %q", asked, want)
		}
		s.delete(d)
		s.model.Lag("apps", 0)
		s.pass(2 * time.Minute)
		s.expect([]client.Object{another}, []client.Object{p, d})
		s.start(s.owners, "owners")
	})
}
