package dependent

import (
	"context"

	"github.com/evenkeel/evenkeel/framework"
)

// Pure is what is desired as a function of the primary alone, as most is: for [Kubernetes.Desired] and its like.
func Pure[P framework.Object, S any](desired func(primary P) S) func(context.Context, P, *framework.Context[P]) (S, error) {
	return func(_ context.Context, primary P, _ *framework.Context[P]) (S, error) { return desired(primary), nil }
}
