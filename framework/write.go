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

// ErrRunEnded is what writes, and reads through a [Context], return once the run they belong to has ended, or
// the operator.
var ErrRunEnded = write.ErrRunEnded

// Writes is what [Apply] and the other writing functions write through: a [Context] during its run, or
// what [Operator.Writer] returns outside of any.
//
// What the server answers is laid over the caches before the function returns: reads begun after that are
// at least as new. Within a run, a write of which the server proves that nothing came between it and the
// state it was computed from makes no further run of its primary due; it does make others due that it
// concerns.
//
// If the fate of a write is unknown (the connection broke, the server failed), the identical request is
// repeated until it has a definite answer or ctx ends.
type Writes interface {
	writer() *write.Writer
}

// writing is Writes through a writer.
type writing struct{ by *write.Writer }

func (w writing) writer() *write.Writer { return w.by }

// Apply makes the object exist with the fields it sets, and leaves other fields alone: a server-side
// apply, or what [ControllerOptions.SecondaryWrites] says instead. desired is reduced to intent:
// status, managedFields and nulls are not sent, and stringData of a Secret is sent as the data that it
// becomes. It returns what the server stored, which reads return from then on.
//
// If the caches show that the server confirmed the same intent on the same content before, nothing is
// sent. Otherwise the request is for the very version that reads show; if somebody changed the object
// since, it is repeated for whatever version there is, of the same object. A resourceVersion that
// desired carries is respected: then a change by others is a conflict.
func Apply[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Apply(ctx, desired, optionsOf(w, options)))
}

// ApplyStatus is [Apply] for the status sub-resource: only desired's status is sent, always by
// server-side apply. The object must exist.
func ApplyStatus[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.ApplyStatus(ctx, desired, optionsOf(w, options)))
}

// ApplyConfiguration is [Apply] for an apply configuration as controller-gen and client-go generate
// them, which sends exactly the fields that are set. T is the type of the answer. With
// [Subresource]("status") it is for the status.
func ApplyConfiguration[T Object](ctx context.Context, c Writes, configuration runtime.ApplyConfiguration, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.ApplyConfiguration(ctx, newObject[T](), configuration, optionsOf(w, options)))
}

// Create creates the object. A write.generateName is resolved here, so that a create whose answer is lost
// can be told from one that never arrived: such an object is found by its name and returned, also by the
// next run's Create of the same content if no cache of the controller shows it. An object that exists
// already is an error that apierrors.IsAlreadyExists recognises.
func Create[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Create(ctx, object, optionsOf(w, options)))
}

// Update replaces the object (PUT). It must carry the resourceVersion it was read with: if the
// object changed since, the error is one that apierrors.IsConflict recognises. Where a cache of the kind keeps a part
// of the objects only (see [Secondary.Transform]), an Update or a patch of an object that was read is compared with
// the one on the server first, which takes a request, and refused if it would change what that cache drops.
func Update[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Update(ctx, object, optionsOf(w, options)))
}

// UpdateStatus is [Update] for the status sub-resource.
func UpdateStatus[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	return Update(ctx, c, object, append(slices.Clip(options), Subresource("status"))...)
}

// MergePatch sends a JSON merge patch to the object that object names. It is for the version and UID
// that object carries, or, if it carries none, for what reads show: if that has changed, the error is one
// that apierrors.IsConflict recognises. A patch is never repeated on a version it was not computed from.
func MergePatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Patch(ctx, object, types.MergePatchType, patch, optionsOf(w, options)))
}

// JSONPatch is [MergePatch] with a JSON patch (RFC 6902).
func JSONPatch[T Object](ctx context.Context, c Writes, object T, patch []byte, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Patch(ctx, object, types.JSONPatchType, patch, optionsOf(w, options)))
}

// Delete deletes the very object: it must carry the UID it was read with, and an object of the same
// name with another UID is left alone. One that is gone already is a success. With [IfUnchanged] it
// is deleted only at the version that object carries.
func Delete(ctx context.Context, c Writes, object Object, options ...WriteOption) error {
	w := c.writer()
	return w.Delete(ctx, object, optionsOf(w, options))
}

// Do is for writes that no other function makes: request sends one, about the object that about names,
// by whatever client, and returns the object as the server answered it, or nil if the answer is none or
// holds metadata only: then it is read. Where there is no object any more, as after an eviction that took effect at
// once, Do returns none and no error. It is readable at once like every write. As nothing is proven about
// it, it makes the run's own primary due again. A request whose fate is unknown is not repeated, but followed
// by a read. It must not send more after ctx has ended.
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

// Difference returns the JSON merge patch (RFC 7386) that makes of before what after is, for [MergePatch], or nil if they are alike.
// Lists are replaced as a whole, and all numbers stay exactly what they are. Of a Secret, stringData counts as the data that
// it becomes. The objects are not changed.
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

// MigrateToApply hands the fields that former field managers own by create, update or patch over to the
// controller's own, which owns them by apply from then on. An operator that used to write an object whole and
// applies it now needs it once per object: without it, a field that it stops applying stays, as its former
// manager still owns it. With [Subresource]("status") it is about the fields of the status. former are names
// as metadata.managedFields shows them. It sends nothing if they own nothing.
//
// It returns the object as it is then. The object must exist.
func MigrateToApply[T Object](ctx context.Context, c Writes, object T, former []string, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Migrate(ctx, object, former, optionsOf(w, options)))
}

// WriteSettings are what is effective of the options of a write, for code that passes options of others on.
type WriteSettings struct {
	// FieldManager is what owns the fields that are written: that of [FieldManager], or the controller's.
	FieldManager string
	// DryRun says that nothing is stored.
	DryRun bool
}

// SettingsOf returns the settings of a write through c with these options.
func SettingsOf(c Writes, options ...WriteOption) WriteSettings {
	o := optionsOf(c.writer(), options)
	return WriteSettings{FieldManager: o.FieldManager, DryRun: o.DryRun}
}

// Wrote reports whether the server is known to have stored, since this process began or came into office, an intent of the field
// manager for this very object: it has the same UID, and a cache has shown it ever since. false says nothing: what an
// earlier process wrote is not known. It takes no request.
func Wrote(c Writes, o Object, fieldManager string) bool {
	return c.writer().Knows(o, fieldManager)
}

// maxName is what the API server grants a generated name.
const maxName = 63

// StableName returns base with a suffix of ten characters that follows from the owner's UID and the intent:
// the same name for the same object on every attempt, also after a crash, and another one for another
// owner or intent. A create with it meets its own earlier one, as "already exists". A base that is too
// long for 63 characters is cut.
func StableName(base string, owner Object, intent ...string) string {
	const suffix = 10
	sum := sha256.Sum256([]byte(string(owner.GetUID()) + "\x00" + strings.Join(intent, "\x00")))
	encoded := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	return base[:min(len(base), maxName-suffix)] + encoded[:suffix]
}
