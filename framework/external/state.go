package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
)

// State is where the ids of external values are remembered: [InStatus] or [InConfigMap].
//
// An id that the system chooses is known only after the creation, so a crash in between could forget the value, or create it twice. Therefore
// a [Record] is written before the creation, which says that there is one under way, and the id is put into it after. What
// a run finds in it tells what may have happened:
//
//   - no record: nothing was created. If there is a Find, it is asked nevertheless before something is created: the record may have been lost;
//   - a record without an id: it was or was not created. Find tells, and if it finds nothing the same creation is repeated, with the
//     same token. Without Find, [UnknownFate] says what follows;
//   - a record with an id: it was created. If the system has it no more, a new creation is recorded.
//
// No creation begins before the API server has confirmed its record, and a record is written only on that very version that
// the decision was made on: of two processes one creates. An id is recorded even if the run is cancelled meanwhile, and is kept in memory if the API server
// cannot be reached. A record goes when the system says that its value is gone.
//
// Other implementations must keep to what the methods say. They must be safe for concurrent use.
type State[P framework.Object] interface {
	// Load returns what is remembered under a name for the primary of a run: as the caches show it with own writes laid over, or, if it is to be
	// fresh, as the API server has it. Nothing remembered is no error.
	Load(ctx context.Context, c *framework.Context[P], name string, fresh bool) (Snapshot, error)
	// Save replaces what was loaded, only if that is still so: otherwise the error is one that apierrors.IsConflict, IsAlreadyExists or IsNotFound recognises. It is
	// durable before Save returns what the API server has then. With no records, nothing is to be left; it
	// costs nothing if nothing is there.
	Save(ctx context.Context, c *framework.Context[P], name string, from Snapshot, records Records) (Snapshot, error)
	// Secondaries are what Load reads.
	Secondaries() []framework.SecondarySource
}

// Snapshot is what was remembered at one time.
type Snapshot struct {
	// Records must not be changed.
	Records Records
	// Base is the object that they were read from, nil if there is none.
	Base framework.Object
	// Where they are, for people who have to look there.
	Where string
}

// Records are what is remembered for one dependent of one primary, by keys; a [Value] has one under the key "".
type Records map[string]Record

// Record remembers one external value. It has no secrets, unless the ids are.
type Record struct {
	// Token is that of the creation: see [Creation].
	Token string `json:"token,omitempty"`
	// ID is what the system has it under, empty as long as it is not known to be created.
	ID string `json:"id,omitempty"`
}

// UnknownFate is what becomes of a creation that was begun, and of which nobody can tell whether it has happened: the process
// died, or no answer came, and there is no Find.
type UnknownFate int

const (
	// Stall fails with [ErrUnknownFate], until somebody has looked in the system, and has put the id into the record or has
	// removed it. Nothing is created twice, and the primary cannot go.
	Stall UnknownFate = iota
	// CreateAgain takes it not to have happened: there may be a value that nobody remembers.
	CreateAgain
)

// String returns "stall" or "create again".
func (f UnknownFate) String() string {
	if f == CreateAgain {
		return "create again"
	}
	return "stall"
}

// ErrUnknownFate is in the error for a creation of which nobody can tell whether it has happened. No retry changes that: it
// suits a condition Stalled.
var ErrUnknownFate error = conditions.StallError("external: nobody can tell whether it was created")

// NotCreated marks an error of Create that says for sure that nothing was created and that nothing will be, as a refused request: then the record
// is taken back. Without it the fate of the creation is unknown. It returns nil for nil.
func NotCreated(err error) error {
	if err == nil {
		return nil
	}
	return &notCreated{err}
}

type notCreated struct{ error }

func (n *notCreated) Unwrap() error { return n.error }

func isNotCreated(err error) bool {
	var n *notCreated
	return errors.As(err, &n)
}

// tagOf is the default tag.
func tagOf(primary framework.Object, name string) string {
	return "evenkeel-" + digest(string(primary.GetUID()), name)
}

// digest is short enough for a label, and long enough to be unique.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:16])
}

func (r Records) keys() []string { return slices.Sorted(maps.Keys(r)) }
