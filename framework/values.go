package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/trc"
)

// Value returns the one value of type V for the primary, and reports whether there is one. More
// than one value is an error. If several sources hold values of that type, pass the names of those
// to read. Without names that is an error that lists the sources.
//
// Value, [Values] and [ValueByID] read what event sources in [ControllerOptions.Sources] hold for
// the primary, such as [eventsource.Polling], [eventsource.PollingEach] and [eventsource.Inbound].
// If a source can fetch the values and has not done so yet, the call fetches them, within ctx.
// Everything else is read at once. Values are shared and must not be changed.
func Value[V any, P Object](ctx context.Context, c *Context[P], sources ...string) (value V, found bool, err error) {
	if len(sources) == 0 {
		if all := holdersOf[V](c); len(all) > 1 {
			return value, false, fmt.Errorf("framework: get the value of type %T of %s: several sources have values of this type: name one of %s",
				value, c.run.Key, quoted(namesOf(all)))
		}
	}
	all, err := Values[V](ctx, c, sources...)
	switch {
	case err != nil || len(all) == 0:
		return value, false, err
	case len(all) > 1:
		return value, false, fmt.Errorf("framework: get the value of type %T of %s: there are %d", value, c.run.Key, len(all))
	}
	return all[0], true, nil
}

// Values returns the values of type V for the primary. It reads the named sources, or all sources
// without names. The values of one source are sorted by their IDs. See [Value] for what is read,
// and when it blocks.
func Values[V any, P Object](ctx context.Context, c *Context[P], sources ...string) ([]V, error) {
	holders, err := namedHolders[V](c, sources)
	if err != nil {
		return nil, err
	}
	var all []V
	for _, h := range holders {
		values, err := fetched(ctx, c, h)
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
	}
	return all, nil
}

// ValueByID returns the value of type V with an ID for the primary, and reports whether there is
// one. If several sources have a value of that ID, the error names them. See [Value] for what is
// read, and when it blocks.
func ValueByID[V any, P Object](ctx context.Context, c *Context[P], id string, sources ...string) (value V, found bool, err error) {
	holders, err := namedHolders[V](c, sources)
	if err != nil {
		return value, false, err
	}
	var having []holder[V]
	for _, h := range holders {
		values, err := fetched(ctx, c, h)
		if err != nil {
			return value, false, err
		}
		held, has := h.Get(c.run.Key, id)
		if known, is := h.(interface{ ID(value V) string }); !has && is { // it may not be kept
			if at := slices.IndexFunc(values, func(v V) bool { return known.ID(v) == id }); at >= 0 {
				held, has = values[at], true
			}
		}
		if has {
			value, found = held, true
			having = append(having, h)
		}
	}
	if len(having) > 1 {
		var none V
		return none, false, fmt.Errorf("framework: get the value %q of type %T of %s: several sources have one: name one of %s",
			id, none, c.run.Key, quoted(namesOf(having)))
	}
	return value, found, nil
}

// holder is a source that embeds [eventsource.Values], or that has the same reads. If it also has a
// Fetch method, by any of the ways to identify a primary, that is called first.
type holder[V any] interface {
	eventsource.Source
	Of(primary trc.Key) []V
	Get(primary trc.Key, id string) (V, bool)
}

// fetched returns the values that a source holds, and makes it fetch them first if it can and has
// not. It also returns values that were fetched but are not kept, as for a primary that is not
// polled.
func fetched[V any, P Object](ctx context.Context, c *Context[P], h holder[V]) ([]V, error) {
	if c.run.Gone { // its values were dropped and must not be held again
		return h.Of(c.run.Key), nil
	}
	values, err := []V(nil), error(nil)
	switch h := h.(type) {
	case interface {
		Fetch(ctx context.Context, primary P) ([]V, error)
	}:
		values, err = h.Fetch(ctx, c.run.Writes.Primary.Object.(P))
	case interface {
		Fetch(ctx context.Context, primary trc.Object) ([]V, error)
	}:
		values, err = h.Fetch(ctx, c.run.Writes.Primary.Object)
	case interface {
		Fetch(ctx context.Context, primary trc.Key) ([]V, error)
	}:
		values, err = h.Fetch(ctx, c.run.Key)
	default:
		values = h.Of(c.run.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("framework: ask source %q for the values of %s: %w", h.Name(), c.run.Key, err)
	}
	return values, nil
}

func holdersOf[V any, P Object](c *Context[P]) []holder[V] {
	var all []holder[V]
	for _, g := range c.run.Controller.Sources.Sources() {
		if h, holds := g.Source.(holder[V]); holds {
			all = append(all, h)
		}
	}
	return all
}

// namedHolders returns the named holders, or all without names.
func namedHolders[V any, P Object](c *Context[P], names []string) ([]holder[V], error) {
	if c.run.Ended.Load() {
		return nil, ErrRunEnded
	}
	var none V
	all := holdersOf[V](c)
	err := c.run.Controller.Workflow.Inactive(func(d *run.Dormant) bool {
		_, holds := d.Source.(holder[V])
		return holds && (len(all) == 0 && len(names) == 0 || slices.Contains(names, d.Name) && !slices.Contains(namesOf(all), d.Name))
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("framework: no source of controller %q holds values of type %T", c.run.Controller.Name, none)
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(namesOf(all), name) {
			errs = append(errs, fmt.Errorf("framework: no source named %q holds values of type %T; there are %s", name, none, quoted(namesOf(all))))
		}
	}
	if len(names) > 0 {
		all = slices.DeleteFunc(all, func(h holder[V]) bool { return !slices.Contains(names, h.Name()) })
	}
	return all, errors.Join(errs...)
}

func namesOf[V any](holders []holder[V]) []string {
	names := make([]string, len(holders))
	for i, h := range holders {
		names[i] = h.Name()
	}
	return names
}
