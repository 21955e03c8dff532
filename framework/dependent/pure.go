package dependent

import (
	"context"

	"github.com/evenkeel/evenkeel/framework"
)

// Pure returns a Desired function, for [Kubernetes] and [Bulk], that depends only on the primary.
func Pure[P framework.Object, S any](desired func(primary P) S) func(context.Context, P, *framework.Context[P]) (S, error) {
	return func(_ context.Context, primary P, _ *framework.Context[P]) (S, error) { return desired(primary), nil }
}
