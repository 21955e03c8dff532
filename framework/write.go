package framework

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// ErrRunEnded is returned by writes, and by reads through a [Context], once their run or the
// operator has ended.
var ErrRunEnded = write.ErrRunEnded

// Writes is what [Apply] and the other writing functions write through: a [Context] during its run,
// or the result of [Operator.Writer] outside of runs.
//
// The server's answer is in the caches before the function returns: reads that begin after it are
// at least as new. Within a run, a write does not make its own primary due if the server proves
// that nothing changed between the write and the state that it was computed from. It does make
// other primaries due that it concerns.
//
// If the outcome of a write is unknown (the connection broke, the server failed), the identical
// request is repeated until it has a definite answer or ctx ends.
type Writes interface {
	writer() *write.Writer
}

// writing implements Writes with a writer.
type writing struct{ by *write.Writer }

func (w writing) writer() *write.Writer { return w.by }

// Apply makes the object exist with the fields that desired sets, and leaves other fields alone. It
// is a server-side apply, unless [ControllerOptions.SecondaryWrites] says otherwise. It returns
// what the server stored, which reads return from then on.
//
// desired is reduced to its intent: status, managedFields and nulls are not sent. stringData of a
// Secret is sent as the data that it becomes.
//
// Nothing is sent if the caches show that the server confirmed the same intent on the same content
// before. Otherwise the request is for exactly the version that reads show. If somebody changed the
// object since, the request is repeated for any version of the same object. If desired carries a
// resourceVersion, a change by others is a conflict instead.
func Apply[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Apply(ctx, desired, optionsOf(w, options)))
}

// ApplyStatus is [Apply] for the status subresource: only desired's status is sent, always by
// server-side apply. The object must exist.
func ApplyStatus[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.ApplyStatus(ctx, desired, optionsOf(w, options)))
}

// ApplyConfiguration is [Apply] for an apply configuration as controller-gen and client-go generate
// them. It sends exactly the fields that are set. T is the type of the answer. With
// [Subresource]("status") it applies the status.
func ApplyConfiguration[T Object](ctx context.Context, c Writes, configuration runtime.ApplyConfiguration, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.ApplyConfiguration(ctx, newObject[T](), configuration, optionsOf(w, options)))
}

// Create creates the object. If it exists already, the error is one that apierrors.IsAlreadyExists
// recognises.
//
// A metadata.generateName is resolved here, so that a create whose answer was lost can be
// distinguished from one that never arrived. Such an object is found by its name and returned. The
// next run's Create of the same content also returns it, if no cache of the controller shows it.
func Create[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Create(ctx, object, optionsOf(w, options)))
}

// Update replaces the object (PUT). It must carry the resourceVersion that it was read with. If the
// object changed since, the error is one that apierrors.IsConflict recognises.
//
// If a cache of the kind keeps only a part of the objects (see [Secondary.Transform]), an Update or
// a patch of an object that was read is first compared with the object on the server. That takes a
// request. The write is refused if it would change what that cache drops.
func Update[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Update(ctx, object, optionsOf(w, options)))
}

// UpdateStatus is [Update] for the status subresource.
func UpdateStatus[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	return Update(ctx, c, object, append(slices.Clip(options), Subresource("status"))...)
}

// MergePatch sends a JSON merge patch to the object that object identifies. It applies to the
// version and UID that object carries, or, if it carries none, to those that reads show. If the
// object changed since, the error is one that apierrors.IsConflict recognises. A patch is never
// repeated on a version that it was not computed from.
func MergePatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Patch(ctx, object, types.MergePatchType, patch, optionsOf(w, options)))
}

// JSONPatch is [MergePatch] with a JSON patch (RFC 6902).
func JSONPatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Patch(ctx, object, types.JSONPatchType, patch, optionsOf(w, options)))
}

// Delete deletes exactly this object. It must carry the UID that it was read with, and an object of
// the same name with another UID is left alone. An object that is gone already is a success. With
// [IfUnchanged] it is deleted only at the version that object carries.
func Delete(ctx context.Context, c Writes, object Object, options ...WriteOption) error {
	w := c.writer()
	return w.Delete(ctx, object, optionsOf(w, options))
}

// Do makes a write that no other function makes. request sends it, with any client, about the
// object that about identifies. It returns the object of the server's answer, or nil if the answer
// has no object or only metadata; then the object is read. If the object no longer exists, as after
// an eviction that took effect at once, Do returns none and no error.
//
// The result is readable at once, like that of every write. Nothing is proven about it, so it makes
// the run's own primary due again. A request with an unknown outcome is not repeated, but followed
// by a read. request must send nothing after its ctx has ended.
func Do[T Object](ctx context.Context, c Writes, about T, request func(ctx context.Context) (T, error), options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Do(ctx, about, func(ctx context.Context) (Object, error) {
		answer, err := request(ctx)
		if err != nil || object.IsNil(answer) {
			return nil, err
		}
		return answer, nil
	}, optionsOf(w, options)))
}

func typed[T Object](o Object, err error) (T, error) {
	var none T
	if err != nil || o == nil {
		return none, err
	}
	if o, ok := o.(T); ok {
		return o, nil
	}
	content, err := object.Content(o)
	if err != nil {
		return none, err
	}
	converted := newObject[T]()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, converted); err != nil {
		return none, fmt.Errorf("framework: %s: %w", trc.KeyOf(o), err)
	}
	return converted, nil
}

// Difference returns the JSON merge patch (RFC 7386) that turns before into after, for
// [MergePatch]. It returns nil if they are equal. Lists are replaced as a whole, and all numbers
// keep their exact value. stringData of a Secret counts as the data that it becomes. The objects
// are not changed.
func Difference(before, after Object) ([]byte, error) {
	from, err := object.FoldedContent(before)
	if err != nil {
		return nil, err
	}
	to, err := object.FoldedContent(after)
	if err != nil {
		return nil, err
	}
	patch := object.MergePatch(from, to)
	if patch == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}

// MigrateToApply moves the fields that former field managers own by create, update or patch to the
// controller's own manager, which owns them by apply from then on. An operator that used to write
// whole objects and now applies them needs it once per object. Without it, a field that the
// operator stops applying stays, because its former manager still owns it.
//
// former are names as in metadata.managedFields. With [Subresource]("status") it moves the fields
// of the status. Nothing is sent if the former managers own nothing. The object must exist.
// MigrateToApply returns its resulting state.
func MigrateToApply[T Object](ctx context.Context, c Writes, object T, former []string, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Migrate(ctx, object, former, optionsOf(w, options)))
}

// WriteSettings are the effective settings of a write, for code that forwards write options.
type WriteSettings struct {
	// FieldManager owns the fields that are written: that of [FieldManager], or the controller's.
	FieldManager string
	// DryRun reports that nothing is stored.
	DryRun bool
}

// SettingsOf returns the settings of a write through c with these options.
func SettingsOf(c Writes, options ...WriteOption) WriteSettings {
	o := optionsOf(c.writer(), options)
	return WriteSettings{FieldManager: o.FieldManager, DryRun: o.DryRun}
}

// Wrote reports whether the server is known to have stored an intent of the field manager for
// exactly this object, since this process started or became the leader. The object must have the
// same UID, and a cache must have shown it ever since. false proves nothing, because writes of an
// earlier process are not known. It makes no request.
func Wrote(c Writes, o Object, fieldManager string) bool {
	return c.writer().Port.Knows(o, fieldManager)
}

// maxName is the longest generated name that the API server allows.
const maxName = 63

// StableName returns base with a suffix of ten characters that is derived from the owner's UID and
// the intent. The name is the same for the same owner and intent on every attempt, also after a
// crash, and differs for another owner or intent. A repeated create finds its own earlier object as
// "already exists". A base that is too long for 63 characters is cut.
func StableName(base string, owner Object, intent ...string) string {
	const suffix = 10
	sum := sha256.Sum256([]byte(string(owner.GetUID()) + "\x00" + strings.Join(intent, "\x00")))
	encoded := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	return base[:min(len(base), maxName-suffix)] + encoded[:suffix]
}
