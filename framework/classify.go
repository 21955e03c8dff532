package framework

import (
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
)

// Classify is the default of Classify in [ControllerOptions.Retry]; one of the author's own may ask it about
// what it does not know itself. After a refusal for now (429, or any with Retry-After) a run follows soon, not
// before the time that the server names, which counts up to [retry.Policy.Patience]. [ErrTooLarge] is not retried. Everything else is retried by the policy:
// what the server found invalid, too, as another's change, of a quota, a webhook or a definition, may make it
// valid; and a conflict, as nobody knows whether the next run will see what it is about. (Those of the framework's
// own writes do not come here: what there is to see has been read, and the run follows at once.)
func Classify(err error) retry.Verdict { return write.Classify(err) }
