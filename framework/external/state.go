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

// State stores the ids of external values: [InStatus] or [InConfigMap].
//
// The id that a system chooses is known only after the creation. A crash in between could lose the
// value, or create it twice. Therefore a [Record] is written before the creation, which says that a
// creation is under way, and the id is added after it. A run decides by the record that it finds:
//
//   - No record: nothing was created. If there is a Find, it is called nevertheless before
//     something is created, because the record may have been lost.
//   - A record without an id: the value may or may not have been created. Find decides; if it finds
//     nothing, the same creation is repeated with the same token. Without Find, [UnknownFate]
//     decides.
//   - A record with an id: the value was created. If the system no longer has it, a new creation is
//     recorded.
//
// No creation begins before the API server has confirmed its record. A record is written only to
// the version on which the decision was based, so of two processes only one creates the value. An
// id is recorded even if the run is cancelled meanwhile, and is kept in memory while the API server
// cannot be reached. A record is removed when the system reports that its value is gone.
//
// Other implementations must follow the documentation of the methods, and must be safe for
// concurrent use.
type State[P framework.Object] interface {
	// Load returns the records under a name for the primary of a run: from the caches including own
	// writes, or, with fresh, from the API server. Having no records is not an error.
	Load(ctx context.Context, c *framework.Context[P], name string, fresh bool) (Snapshot, error)
	// Save replaces the loaded records, only if they have not changed since: otherwise it returns an
	// error that apierrors.IsConflict, IsAlreadyExists or IsNotFound recognises. The records must be
	// durable before Save returns what the API server has then. If there are no records, nothing must
	// be left in the cluster; if nothing is there, that must cost nothing.
	Save(ctx context.Context, c *framework.Context[P], name string, from Snapshot, records Records) (Snapshot, error)
	// Secondaries returns what Load reads.
	Secondaries() []framework.SecondarySource
}

// Snapshot is the stored state at one time.
type Snapshot struct {
	// Records must not be changed.
	Records Records
	// Base is the object that the records were read from, nil if there is none.
	Base framework.Object
	// Where describes the location of the records, for people who must look there.
	Where string
}

// Records are the records of one dependent of one primary, by keys. A [Value] has one, under the
// key "".
type Records map[string]Record

// Record describes one external value. It contains no secrets, unless ids are secret.
type Record struct {
	// Token is the token of the creation: see [Creation].
	Token string `json:"token,omitempty"`
	// ID is the system's id of the value, empty as long as it is not known to be created.
	ID string `json:"id,omitempty"`
}

// UnknownFate decides what follows if the outcome of a creation is unknown: the process died, or
// there was no answer, and there is no Find.
type UnknownFate int

const (
	// Stall fails with [ErrUnknownFate] until somebody has looked in the system, and has added the id
	// to the record or removed the record. Nothing is created twice, and the primary cannot be
	// deleted. This is the default.
	Stall UnknownFate = iota
	// CreateAgain assumes that nothing was created: there may be a value that is never found again.
	CreateAgain
)

// String returns "stall" or "create again".
func (f UnknownFate) String() string {
	if f == CreateAgain {
		return "create again"
	}
	return "stall"
}

// ErrUnknownFate is wrapped by the error about a creation whose outcome is unknown. No retry
// changes that, so it suits a condition Stalled.
var ErrUnknownFate error = conditions.StallError("external: it is unknown whether it was created")

// NotCreated marks an error of Create that certainly means that nothing was created and nothing
// will be, such as a refused request: then the record is removed. Without it the outcome of the
// creation is unknown. It returns nil for nil.
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

// tagOf returns the default tag.
func tagOf(primary framework.Object, name string) string {
	return "evenkeel-" + digest(string(primary.GetUID()), name)
}

// digest returns a hash that is short enough for a label and long enough to be unique.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:16])
}

func (r Records) keys() []string { return slices.Sorted(maps.Keys(r)) }
