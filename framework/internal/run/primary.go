package run

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// conflictTries is how often a write is sent within one run if it meets conflicts. Then the run is
// repeated.
const conflictTries = 5

// primaryWriter writes to the primary of a run.
type primaryWriter struct {
	*Controller
	run *Run
}

// addFinalizer adds the finalizer and returns the primary as the server stored it. The patch holds
// only for the version that it was computed from, so that foreign finalizers are never lost.
func (e primaryWriter) addFinalizer(ctx context.Context, from trc.Object) (trc.Object, error) {
	w := &e.run.Writes.Local
	current, options := trc.Object(from), w.Defaults()
	options.Internal = true
	for try := 1; ; try++ {
		others := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), e.finalizer.is)
		patch := finalizers(append(others, e.Options.Finalizer))
		stored, err := w.SendMergePatch(ctx, e.Resource.Writes, trc.KeyOf(current), current, patch, options)
		var met *write.Conflict
		if err == nil && object.FormOf(stored) == e.Resource.Form {
			return stored, nil
		}
		if err == nil {
			return e.Operator.Cluster.Convert(stored, e.Resource.Form, e.GVK)
		}
		if !errors.As(err, &met) || try == conflictTries {
			return nil, err
		}
		live := met.Live
		if live == nil || live.GetUID() != from.GetUID() || !e.needsFinalizer(live) {
			// The primary is deleted, replaced, in deletion, or an earlier attempt succeeded. A run on the
			// fresh view decides.
			return nil, err
		}
		current = live
	}
}

// removeFinalizer removes the finalizer from the object that was cleaned up, which is read. It
// succeeds if the object is deleted or replaced.
func (e primaryWriter) removeFinalizer(ctx context.Context, read trc.Object) error {
	w := &e.run.Writes.Local
	key := trc.KeyOf(read)
	current := read
	if newer := e.Store.Get(key); newer != nil && newer.GetUID() == read.GetUID() {
		current = newer
	}
	for try := 1; e.finalizer.isOn(current); try++ {
		e.states.change(key, func(s *primaryState) { s.released = read.GetUID() }) // before the change may be delivered
		rest := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), e.finalizer.is)
		_, err := w.SendMergePatch(ctx, e.Resource.Writes, key, current, finalizers(rest), w.Defaults())
		if err == nil || errors.Is(err, client.ErrUndecodable) {
			return nil // the answer is not needed
		}
		e.states.look(key, func(s *primaryState) {
			if s.released == read.GetUID() {
				s.released = ""
			}
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		var met *write.Conflict
		if !errors.As(err, &met) || try == conflictTries {
			return err
		}
		if met.Live == nil || met.Live.GetUID() != read.GetUID() {
			return nil
		}
		current = met.Live
	}
	return nil
}

func finalizers(list []string) map[string]any {
	items := make([]any, len(list))
	for i, f := range list {
		items[i] = f
	}
	return map[string]any{"metadata": map[string]any{"finalizers": items}}
}

// carryOut writes to the primary as the author asked. It sends nothing if nothing differs.
func (e primaryWriter) carryOut(ctx context.Context, read trc.Object, control Update) error {
	if !control.Resource && !control.Status {
		return nil
	}
	if e.run.Gone {
		return fmt.Errorf("framework: UpdateControl of %s: there is nothing to write to, the primary is gone; see Context.Gone", e.Resource.Describe(e.run.Key))
	}
	if err := e.checkReturned(read, control.Object); err != nil {
		return err
	}
	if e.Options.PrimaryWrites == write.ByApply {
		return e.carryOutByApply(ctx, control)
	}
	return e.carryOutByPatch(ctx, read, control)
}

func (e primaryWriter) checkReturned(read, returned trc.Object) error {
	key := e.run.Key
	fail := func(format string, args ...any) error {
		return fmt.Errorf("framework: UpdateControl of %s: "+format, append([]any{e.Resource.Describe(key)}, args...)...)
	}
	if object.IsNil(returned) {
		return fail("the object is nil")
	}
	if other := trc.KeyOf(returned); other != key {
		return fail("the object is %s, not the primary", other)
	}
	if uid := returned.GetUID(); uid != "" && uid != read.GetUID() {
		return fail("the object has UID %s, not the primary's %s", uid, read.GetUID())
	}
	if returned.GetUID() != "" && returned.GetResourceVersion() == "" {
		return fail("the object has a UID but no resourceVersion, so it is neither a copy of the primary nor a fresh object; the fields that it does not set would be removed")
	}
	return nil
}

func (e primaryWriter) carryOutByPatch(ctx context.Context, read trc.Object, control Update) error {
	patch, err := e.patchOf(read, control.Object, control)
	if err != nil {
		return fmt.Errorf("framework: UpdateControl of %s: %w", e.Resource.Describe(e.run.Key), err)
	}
	status, hasStatus := patch["status"]
	delete(patch, "status")
	send := func(patch map[string]any, subresource ...string) error {
		held := e.run.Writes.Primary.Held() // every write changes it
		options := e.run.Writes.Local.Defaults()
		options.Internal, options.Subresource = true, subresource
		_, err := e.run.Writes.Local.SendMergePatch(ctx, e.Resource.Writes, e.run.Key, held, patch, options)
		return err
	}
	if resource := e.Resource.Writes; control.Status && hasStatus && !resource.StatusApart.Load() {
		return e.sendWithStatus(ctx, patch, status, control)
	}
	if control.Resource && len(patch) > 0 {
		if err := send(patch); err != nil {
			return err
		}
	}
	if control.Status && hasStatus {
		return e.statusError(ctx, send(map[string]any{"status": status}, "status"))
	}
	return nil
}

// patchOf returns the merge patch from the primary as it was read to the object that the author
// returned.
func (e primaryWriter) patchOf(read, returned trc.Object, control Update) (map[string]any, error) {
	isCopy, finalizer := returned.GetUID() != "", ""
	if control.Resource && e.Cleans() {
		finalizer = object.FinalizerOn(read, e.Options.Finalizer, e.finalizer.former)
	}
	if isCopy && !control.Resource {
		if patch, ok, err := statusDifference(read, returned); ok {
			return patch, err
		}
	}
	if !isCopy {
		intent, err := object.Intent(e.GVK, returned)
		if err != nil {
			return nil, err
		}
		object.KeepFinalizerIfListed(intent, finalizer)
		return object.Additions(read, intent, object.ListKeys{})
	}
	before, err := object.Content(read)
	if err != nil {
		return nil, err
	}
	after, err := object.FoldedContent(returned)
	if err != nil {
		return nil, err
	}
	object.KeepFinalizer(after, finalizer)
	e.run.Reserved.restore(before, after)
	for _, content := range []map[string]any{before, after} {
		delete(content, "apiVersion")
		delete(content, "kind")
		object.DropServerFields(content)
	}
	return object.MergePatch(before, after), nil
}

// statusDifference returns the merge patch of the status alone, so that fields that are not written
// are not compared. ok is false if the objects are not typed, or their status is no plain struct.
func statusDifference(read, returned trc.Object) (patch map[string]any, ok bool, err error) {
	before, hadStatus := statusField(read)
	after, hasStatus := statusField(returned)
	if !hadStatus || !hasStatus {
		return nil, false, nil
	}
	from, err := object.Plain(before)
	if err != nil {
		return nil, true, err
	}
	to, err := object.Plain(after)
	if err != nil {
		return nil, true, err
	}
	return object.MergePatch(map[string]any{"status": from}, map[string]any{"status": to}), true, nil
}

func statusField(o trc.Object) (status any, ok bool) {
	if object.FormOf(o) != object.Typed {
		return nil, false
	}
	object := reflect.ValueOf(o).Elem()
	field, ok := object.Type().FieldByName("Status")
	if !ok || field.Type.Kind() != reflect.Struct || strings.Split(field.Tag.Get("json"), ",")[0] != "status" {
		return nil, false
	}
	return object.FieldByIndex(field.Index).Addr().Interface(), true
}

func (e primaryWriter) carryOutByApply(ctx context.Context, control Update) error {
	created := control.Object.GetCreationTimestamp()
	if !created.IsZero() {
		return fmt.Errorf("framework: UpdateControl of %s: apply takes a fresh object that holds only the controller's own intent, not a changed copy of the primary (metadata.creationTimestamp is set): it would take over every field", e.Resource.Describe(e.run.Key))
	}
	intent, err := object.Intent(e.GVK, control.Object)
	if err != nil {
		return err
	}
	options := e.run.Writes.Local.Defaults()
	options.IsTyped = e.Resource.Form == object.Typed
	apart := e.Resource.Writes.StatusApart.Load()
	if control.Status && !apart && !control.Resource {
		return fmt.Errorf("framework: UpdateControl of %s: %s has no status sub-resource: an apply of the status alone would give up all other fields; apply both, or use PrimaryWrites ByPatch",
			e.Resource.Describe(e.run.Key), e.GVK.Kind)
	}
	status := object.Status(e.run.Key, intent)
	if apart || !control.Status {
		delete(intent, "status")
	}
	if control.Resource {
		if _, err := e.run.Writes.Local.SendApply(ctx, e.Resource.Writes, e.run.Key, intent, options); err != nil {
			return err
		}
	}
	if !control.Status || !apart {
		return nil
	}
	options.Subresource = []string{"status"}
	_, err = e.run.Writes.Local.SendApply(ctx, e.Resource.Writes, e.run.Key, status, options)
	return e.statusError(ctx, err)
}
