package frameworktest_test

import (
	"context"
	"errors"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// externalPairs are flaws in what operators do with systems outside of the cluster.
func externalPairs() []pair {
	return []pair{
		{
			name: "forgets the finalizer", story: disappears, bad: forgetsTheFinalizer, good: hasAFinalizer,
			found: "crash-before",
			first: "crash-before@2, at write 2: delete cloud.external cloud-1", says: "+ external cloud",
		},
		{
			name: "leaks an external id", story: appears, bad: leaksAnID, good: startsOver,
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-409 refused-429 refused-500 rival stale-server",
			first: "crash-committed@2, at write 2: create cloud.external hello", says: "(+):\n    + external cloud hello",
		},
		{
			name: "has an external dependent without a state", story: appears, bad: stateless, good: stateful,
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-409 refused-429 refused-500 rival stale-server",
			first: "crash-committed@2, at write 2: create cloud.external hello", says: "+ external cloud",
		},
		{
			name: "takes not found for a failure", story: disappears, bad: notFoundIsAFailure, twin: "forgets the finalizer",
			found: "crash-answered crash-before crash-committed failed-500 lost-answer refused-429 refused-500 rival stale-server",
			first: "crash-committed@4, at write 4: delete cloud.external cloud-1", says: "it does not come to rest",
		},
		{
			name: "believes that a failed creation made nothing", story: appears, bad: believesFailures, twin: "has an external dependent without a state",
			found: "crash-answered crash-before crash-committed failed-500 lost-answer rival stale-server",
			first: "crash-committed@3, at write 3: create cloud.external evenkeel-", says: "+ external cloud",
		},
	}
}

// bookings has one item for a site, by its name.
type bookings struct{ *frameworktest.External }

// nameOf keeps the sites of namespaces apart.
func nameOf(site *Site) string { return site.Namespace + "/" + site.Name }

// ensure makes the item unless there is one.
func (b bookings) ensure(ctx context.Context, site *Site) (frameworktest.Item, error) {
	found, err := b.List(ctx, nameOf(site))
	if err != nil || len(found) > 0 {
		return append(found, frameworktest.Item{})[0], err
	}
	return b.Create(ctx, nameOf(site), site.Spec.Text)
}

// remove removes all items of the site.
func (b bookings) remove(ctx context.Context, site *Site) error {
	found, err := b.List(ctx, nameOf(site))
	for _, item := range found {
		if gone := b.Delete(ctx, item.ID); gone != nil && !errors.Is(gone, frameworktest.ErrNoItem) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// forgetsTheFinalizer removes what it made when it hears that the site is gone.
func forgetsTheFinalizer(op *framework.Operator, p *frameworktest.Process) error {
	b := bookings{p.External("cloud")}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		if c.Gone() {
			return noUpdate, b.remove(ctx, site)
		}
		_, err := b.ensure(ctx, site)
		return noUpdate, err
	}), siteOptions{AllEvents: true})
}

// hasAFinalizer removes what it made before the site may go.
func hasAFinalizer(op *framework.Operator, p *frameworktest.Process) error {
	b := bookings{p.External("cloud")}
	return framework.Register(op, cleaning{
		reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			_, err := b.ensure(ctx, site)
			return noUpdate, err
		},
		cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), b.remove(ctx, site)
		},
	}, siteOptions{})
}

// leaksAnID remembers in the status what it made.
func leaksAnID(op *framework.Operator, p *frameworktest.Process) error {
	cloud := p.External("cloud")
	return framework.Register(op, cleaning{
		reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.ID == "" {
				item, err := cloud.Create(ctx, site.Name, site.Spec.Text)
				if err != nil {
					return noUpdate, err
				}
				site.Status.ID = item.ID
			}
			return framework.PatchStatus(site), nil
		},
		cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
			if err := cloud.Delete(ctx, site.Status.ID); err != nil && !errors.Is(err, frameworktest.ErrNoItem) {
				return framework.KeepFinalizer(), err
			}
			return framework.RemoveFinalizer(), nil
		},
	}, siteOptions{})
}

// startsOver removes what there is unless it remembers it: what it made may be made twice, one
// after the other.
func startsOver(op *framework.Operator, p *frameworktest.Process) error {
	b := bookings{p.External("cloud")}
	return framework.Register(op, cleaning{
		reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			if site.Status.ID == "" {
				if err := b.remove(ctx, site); err != nil {
					return noUpdate, err
				}
				item, err := b.Create(ctx, nameOf(site), site.Spec.Text)
				if err != nil {
					return noUpdate, err
				}
				site.Status.ID = item.ID
			}
			return framework.PatchStatus(site), nil
		},
		cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), b.remove(ctx, site)
		},
	}, siteOptions{})
}

// item returns a dependent of the external system, and how to find an item by its ID.
func item(cloud *frameworktest.External) *external.Value[*Site, frameworktest.Item] {
	return &external.Value[*Site, frameworktest.Item]{
		Name: "item",
		Desired: func(_ context.Context, site *Site, _ *siteContext) (frameworktest.Item, error) {
			return frameworktest.Item{Name: site.Name, Value: site.Spec.Text}, nil
		},
		Matches: func(actual, desired frameworktest.Item) bool { return actual.Value == desired.Value },
		Remove: func(ctx context.Context, _ *siteContext, actual frameworktest.Item) error {
			if err := cloud.Delete(ctx, actual.ID); !errors.Is(err, frameworktest.ErrNoItem) {
				return err
			}
			return nil
		},
	}
}

// lookUp returns the item of an ID, or reports that there is none.
func lookUp(ctx context.Context, cloud *frameworktest.External, id string) (frameworktest.Item, bool, error) {
	found, err := cloud.Get(ctx, id)
	if errors.Is(err, frameworktest.ErrNoItem) {
		return found, false, nil
	}
	return found, err == nil, err
}

// stateless finds its item by the ID that Reconcile writes down after the workflow.
func stateless(op *framework.Operator, p *frameworktest.Process) error {
	cloud := p.External("cloud")
	value := item(cloud)
	value.Observe = func(ctx context.Context, c *siteContext) (frameworktest.Item, bool, error) {
		return lookUp(ctx, cloud, c.Primary().Status.ID)
	}
	value.Create = func(ctx context.Context, _ *siteContext, desired frameworktest.Item, _ external.Creation) (frameworktest.Item, error) {
		return cloud.Create(ctx, desired.Name, desired.Value)
	}
	return framework.Register(op, reconcile(func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
		made, _, err := value.Get(ctx, c)
		site.Status.ID = made.ID
		return framework.PatchStatus(site), err
	}), siteOptions{Workflow: framework.Workflow[*Site]{Dependents: []framework.Dependent[*Site]{value}}})
}

// remembers is a dependent with a state, which finds again what it made, by a tag.
func remembers(cloud *frameworktest.External) *external.Value[*Site, frameworktest.Item] {
	value := item(cloud)
	value.State = external.OneInStatus(
		func(site *Site) external.Record { return external.Record{ID: site.Status.ID, Token: site.Status.Token} },
		func(site *Site, r external.Record) { site.Status.ID, site.Status.Token = r.ID, r.Token },
	)
	value.ID = func(i frameworktest.Item) string { return i.ID }
	value.ByID = func(ctx context.Context, _ *siteContext, id string) (frameworktest.Item, bool, error) {
		return lookUp(ctx, cloud, id)
	}
	value.Create = func(ctx context.Context, _ *siteContext, desired frameworktest.Item, as external.Creation) (frameworktest.Item, error) {
		return cloud.Create(ctx, as.Tag, desired.Value)
	}
	value.Find = func(ctx context.Context, _ *siteContext, tag string) (frameworktest.Item, bool, error) {
		found, err := cloud.List(ctx, tag)
		return append(found, frameworktest.Item{})[0], len(found) > 0, err
	}
	return value
}

func stateful(op *framework.Operator, p *frameworktest.Process) error {
	return framework.Register(op, does, siteOptions{
		Workflow: framework.Workflow[*Site]{Dependents: []framework.Dependent[*Site]{remembers(p.External("cloud"))}},
	})
}

// notFoundIsAFailure deletes what it wrote down, and believes that it is there.
func notFoundIsAFailure(op *framework.Operator, p *frameworktest.Process) error {
	b := bookings{p.External("cloud")}
	return framework.Register(op, cleaning{
		reconcile: func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			item, err := b.ensure(ctx, site)
			site.Status.ID = item.ID
			return framework.PatchStatus(site), err
		},
		cleanup: func(ctx context.Context, site *Site, _ *siteContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), b.Delete(ctx, site.Status.ID)
		},
	}, siteOptions{})
}

// believesFailures has a state, and takes each error of a creation for a refusal.
func believesFailures(op *framework.Operator, p *frameworktest.Process) error {
	cloud := p.External("cloud")
	value := remembers(cloud)
	value.Find = nil
	value.Create = func(ctx context.Context, _ *siteContext, desired frameworktest.Item, as external.Creation) (frameworktest.Item, error) {
		made, err := cloud.Create(ctx, as.Tag, desired.Value)
		return made, external.NotCreated(err)
	}
	value.Unknown = external.CreateAgain
	return framework.Register(op, does, siteOptions{
		Workflow: framework.Workflow[*Site]{Dependents: []framework.Dependent[*Site]{value}},
	})
}
