package interlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/framework"
)

// Guard is the side of the providers: it keeps each provider of type P from vanishing while dependents of type D may be using it. It
// is a controller of its own, as [Guard.Register] makes it, beside whatever else reconciles the providers. It must not be copied after that.
//
// It puts the finalizer on providers that lack it, but at birth an admission policy does better: see [Guard.Policy]. Of a provider in deletion it
// takes the finalizer off when no dependent may be using it any more, which it is told by their events, and which a consistent list has to
// confirm: one or two lists for a provider, however many dependents it has had.
type Guard[P, D framework.Object] struct {
	// Relation is that of the dependents. Required.
	Relation Relation[D]
	// Dependents is how they are watched, which follows from the type mostly. Its namespaces are all by default, and should be all where
	// dependents may be: about others the API server is asked once a minute. By, Map, selectors and filters must not be set, and a Transform must leave what the
	// relation is about: labels and annotations.
	Dependents framework.Secondary[D]
	// Options are those of the controller. Name is "NAME-interlock" by default, with the first part of the relation's name, so where another guard of the operator has that part,
	// too, one of them needs another name. Finalizer, Secondaries and Workflow must not be set.
	Options framework.ControllerOptions[P]

	registered bool
}

// Register makes it a controller of the operator. An error names the relation and every field that makes no sense; that another controller has the same
// name is one, and that it is registered already: one Guard makes one controller.
func (g *Guard[P, D]) Register(op *framework.Operator) error {
	if g.registered {
		return fmt.Errorf("interlock: guard of relation %q: it is registered already", g.Relation.Name)
	}
	if err := g.validate(); err != nil {
		return err
	}
	options, r := g.Options, &g.Relation
	if options.Name == "" {
		first, _, _ := strings.Cut(r.Name, ".")
		options.Name = first + "-interlock"
	}
	options.Finalizer = r.Finalizer()
	if g.Dependents.Namespaces == nil {
		g.Dependents.Namespaces = []string{framework.AllNamespaces}
	}
	g.Dependents.Map = r.mayUse
	options.Secondaries = framework.Secondaries(&g.Dependents)
	if err := framework.Register(op, guarding[P, D]{g}, options); err != nil {
		g.Dependents.Map = nil // so that it may be mended and tried again
		return fmt.Errorf("interlock: guard of relation %q: %w", r.Name, err)
	}
	g.registered = true
	return nil
}

func (g *Guard[P, D]) validate() error {
	errs := []error{g.Relation.validate()}
	bad := func(field string, set bool, why string) {
		if set {
			errs = append(errs, fmt.Errorf("interlock: guard of relation %q: %s: %s", g.Relation.Name, field, why))
		}
	}
	bad("Dependents.Map", g.Dependents.Map != nil, "must be nil: the relation maps them")
	bad("Dependents.By", g.Dependents.By != nil, "must be nil: the relation maps them")
	bad("Dependents.LabelSelector", g.Dependents.LabelSelector != "", "must be empty: what is not watched would keep a provider for ever")
	bad("Dependents.FieldSelector", g.Dependents.FieldSelector != "", "must be empty: what is not watched would keep a provider for ever")
	bad("Dependents.ShardSelector", g.Dependents.ShardSelector != "", "must be empty: what is not watched would keep a provider for ever")
	filters := g.Dependents.AddFilter != nil || g.Dependents.UpdateFilter != nil || g.Dependents.DeleteFilter != nil || g.Dependents.Filter != nil
	bad("Dependents.Filter", filters, "must be nil, and the others, too: who is not heard of when it leaves would keep a provider for ever")
	bad("Options.Finalizer", g.Options.Finalizer != "", "must be empty: the relation names it")
	bad("Options.Secondaries", g.Options.Secondaries != nil, "must be nil: it reads the dependents alone")
	bad("Options.Workflow", g.Options.Workflow.Dependents != nil, "must be empty: register another controller for what providers need")
	bad("Options.AllEvents", g.Options.AllEvents, "must be false: the guard works by a finalizer")
	return errors.Join(errs...)
}

// guarding is the controller.
type guarding[P, D framework.Object] struct{ *Guard[P, D] }

var _ framework.Cleaner[framework.Object] = guarding[framework.Object, framework.Object]{}

// Reconcile has nothing to do: the framework has put the finalizer on.
func (g guarding[P, D]) Reconcile(context.Context, P, *framework.Context[P]) (framework.UpdateControl[P], error) {
	return framework.NoUpdate[P](), nil
}

// Cleanup is called for a provider whose deletion was requested, as its cache shows.
func (g guarding[P, D]) Cleanup(ctx context.Context, provider P, c *framework.Context[P]) (framework.DeleteControl, error) {
	waits := c.PerTerm(waitsKey{}, newWaits).(*waits)
	side := &guardSide[P, D]{Guard: g.Guard, c: c, provider: objectOf(provider), waits: waits}
	user, err := mayGo(ctx, side)
	switch {
	case err != nil:
		return framework.DeleteControl{}, fmt.Errorf("interlock: relation %q: look for dependents: %w", g.Relation.Name, err)
	case user == "":
		waits.done(side.provider, g.Relation.Name)
		return framework.RemoveFinalizer(), nil
	}
	return g.keep(side, c), nil
}

// guardSide is what the framework answers for a provider.
type guardSide[P, D framework.Object] struct {
	*Guard[P, D]
	c        *framework.Context[P]
	provider object
	waits    *waits
	user     object // that was named
}

func (s *guardSide[P, D]) shown() (string, error) {
	if last, known := s.waits.userOf(s.provider, s.Relation.Name); known { // or each run would go through all of them
		if user, shows := s.shows(last); shows {
			return s.name(user), nil
		}
	}
	for dependent, err := range s.Dependents.Each(s.c) {
		if err != nil {
			return "", err
		}
		return s.name(dependent), nil // Map has filed those alone that may be using it
	}
	return "", nil
}

// shows tells whether the cache shows that a dependent may be using the provider, so that its leaving is an event.
func (s *guardSide[P, D]) shows(user object) (dependent D, shows bool) {
	dependent, err := s.Dependents.GetNamed(s.c, user.key.Namespace, user.key.Name)
	shows = err == nil && !isNil(dependent) && dependent.GetUID() == user.uid && s.Relation.uses(dependent, s.provider.key)
	return dependent, shows
}

func (s *guardSide[P, D]) live(ctx context.Context) (string, error) {
	provider := s.c.Key()
	for dependent, err := range s.Dependents.LiveList(ctx, s.c, s.Relation.selection(provider)) {
		if err != nil {
			return "", err
		}
		if s.Relation.uses(dependent, provider) {
			return s.name(dependent), nil
		}
	}
	return "", nil
}

func (s *guardSide[P, D]) name(user D) string {
	s.user = objectOf(user)
	return s.user.key.String()
}
