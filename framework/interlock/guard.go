package interlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/framework"
)

// Guard is the side of the providers: it keeps each provider of type P from being removed while
// dependents of type D may be using it. It is a separate controller, which [Guard.Register] adds,
// beside whatever else reconciles the providers. It must not be copied after that.
//
// It adds the finalizer to providers that lack it. An admission policy can add it earlier, at
// creation: see [Guard.Policy]. It removes the finalizer of a provider in deletion when no
// dependent may be using it any longer. It learns that from the dependents' events, and a
// consistent list must confirm it: one or two lists for each provider, however many dependents it
// has had.
type Guard[P, D framework.Object] struct {
	// Relation is the relation of the dependents. Required.
	Relation Relation[D]
	// Dependents configures how the dependents are watched. Default: derived from the type, in all
	// namespaces. It should cover all namespaces that may have dependents: the API server is asked
	// about others once a minute. By, Map, selectors and filters must not be set. A Transform must
	// keep what the relation needs: labels and annotations.
	Dependents framework.Secondary[D]
	// Options are the options of the controller. Name defaults to "NAME-interlock" with the first part
	// of the relation's name; if another guard of the operator has the same first part, one of them
	// needs another name. Finalizer, Secondaries and Workflow must not be set.
	Options framework.ControllerOptions[P]

	registered bool
}

// Register adds the guard to the operator as a controller. It returns an error that names the
// relation and every invalid field. It also fails if another controller has the same name, or if
// the guard is registered already: one Guard is one controller.
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
		g.Dependents.Map = nil // so that the author can correct it and try again
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
	bad("Dependents.LabelSelector", g.Dependents.LabelSelector != "", "must be empty: dependents that are not watched would keep a provider for ever")
	bad("Dependents.FieldSelector", g.Dependents.FieldSelector != "", "must be empty: dependents that are not watched would keep a provider for ever")
	bad("Dependents.ShardSelector", g.Dependents.ShardSelector != "", "must be empty: dependents that are not watched would keep a provider for ever")
	filters := g.Dependents.AddFilter != nil || g.Dependents.UpdateFilter != nil || g.Dependents.DeleteFilter != nil || g.Dependents.Filter != nil
	bad("Dependents.Filter", filters, "must be nil, like the other filters: dependents whose end is filtered out would keep a provider for ever")
	bad("Options.Finalizer", g.Options.Finalizer != "", "must be empty: the relation defines it")
	bad("Options.Secondaries", g.Options.Secondaries != nil, "must be nil: it reads only the dependents")
	bad("Options.Workflow", g.Options.Workflow.Dependents != nil, "must be empty: register another controller for what providers need")
	bad("Options.AllEvents", g.Options.AllEvents, "must be false: the guard works by a finalizer")
	return errors.Join(errs...)
}

// guarding is the controller of a guard.
type guarding[P, D framework.Object] struct{ *Guard[P, D] }

var _ framework.Cleaner[framework.Object] = guarding[framework.Object, framework.Object]{}

// Reconcile does nothing: the framework has added the finalizer.
func (g guarding[P, D]) Reconcile(context.Context, P, *framework.Context[P]) (framework.UpdateControl[P], error) {
	return framework.NoUpdate[P](), nil
}

// Cleanup is called for a provider whose deletion was requested, according to its cache.
func (g guarding[P, D]) Cleanup(ctx context.Context, provider P, c *framework.Context[P]) (framework.DeleteControl, error) {
	waits := c.TermValue(waitGraphKey{}, newWaitGraph).(*waitGraph)
	side := &guardSide[P, D]{Guard: g.Guard, c: c, provider: objectOf(provider), waitGraph: waits}
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

// guardSide implements providerSide with the framework.
type guardSide[P, D framework.Object] struct {
	*Guard[P, D]
	c         *framework.Context[P]
	provider  object
	waitGraph *waitGraph
	user      object // the dependent that was named last
}

func (s *guardSide[P, D]) cached() (string, error) {
	// Otherwise each run would go through all dependents.
	if last, known := s.waitGraph.userOf(s.provider, s.Relation.Name); known {
		if user, shows := s.isCached(last); shows {
			return s.name(user), nil
		}
	}
	for dependent, err := range s.Dependents.Each(s.c) {
		if err != nil {
			return "", err
		}
		return s.name(dependent), nil // Map selects only those that may be using it
	}
	return "", nil
}

// isCached reports whether the cache has a dependent that may be using the provider, so that the
// end of its claim is an event.
func (s *guardSide[P, D]) isCached(user object) (dependent D, shows bool) {
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
