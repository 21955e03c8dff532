package external

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
)

// withhold keeps a plan from changing the system. The plan records each change instead. What was
// desired counts as the answer, but not for an update of a value that is found by its id: the
// desired value has none.
func (s *set[P, V]) withhold(hasState bool) {
	if create := s.create; create != nil {
		s.create = func(ctx context.Context, c *framework.Context[P], desired V, as Creation) (V, error) {
			if s.isWithheld(c.Ctx(), "create", as.Key) {
				return desired, nil
			}
			return create(ctx, c, desired, as)
		}
	}
	if update := s.update; update != nil {
		s.update = func(ctx context.Context, c *framework.Context[P], actual, desired V) (V, error) {
			if !s.isWithheld(c.Ctx(), "update", s.keyOf(actual)) {
				return update(ctx, c, actual, desired)
			}
			if hasState || s.source != nil {
				return actual, nil
			}
			return desired, nil
		}
	}
	if remove := s.remove; remove != nil {
		s.remove = func(ctx context.Context, c *framework.Context[P], actual V) error {
			if s.isWithheld(c.Ctx(), "remove", s.keyOf(actual)) {
				return nil
			}
			return remove(ctx, c, actual)
		}
	}
}

// keyOf returns the key of a present value as far as the value shows it.
func (s *set[P, V]) keyOf(actual V) string {
	if s.source == nil || s.key == nil {
		return only
	}
	return s.key(actual)
}

// isWithheld reports whether the run with that context is only planned, and records what it would
// do. It takes the run's own context, whatever the author passes.
func (s *set[P, V]) isWithheld(ctx context.Context, verb, key string) bool {
	plan := planning.Of(ctx)
	if plan == nil {
		return false
	}
	what := fmt.Sprintf("%s %s %q", verb, s.what, s.name)
	if key != only {
		what += fmt.Sprintf(" %q", key)
	}
	plan.Withhold(ctx, what)
	return true
}
