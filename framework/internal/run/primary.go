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

// addFinalizer adds the finalizer and returns the primary as the server stored it. The patch holds
// only for the version that it was computed from, so that foreign finalizers are never lost.
func (c *Controller) addFinalizer(ctx context.Context, w *write.Writer, from trc.Object) (trc.Object, error) {
	current, options := trc.Object(from), w.Defaults()
	options.Internal = true
	for try := 1; ; try++ {
		others := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), c.isFinalizer)
		patch := finalizers(append(others, c.Options.Finalizer))
		stored, err := w.SendMergePatch(ctx, c.Resource.Writes, trc.KeyOf(current), current, patch, options)
		var met *write.Conflict
		if err == nil && object.FormOf(stored) == c.Resource.Form {
			return stored, nil
		}
		if err == nil {
			return c.Operator.Cluster.Convert(stored, c.Resource.Form, c.GVK)
		}
		if !errors.As(err, &met) || try == conflictTries {
			return nil, err
		}
		live := met.Live
		if live == nil || live.GetUID() != from.GetUID() || !c.needsFinalizer(live) {
			// The primary is deleted, replaced, in deletion, or an earlier attempt succeeded. A run on the
			// fresh view decides.
			return nil, err
		}
		current = live
	}
}

// removeFinalizer removes the finalizer from the object that was cleaned up, which is read. It
// succeeds if the object is deleted or replaced.
func (c *Controller) removeFinalizer(ctx context.Context, w *write.Writer, read trc.Object) error {
	key := trc.KeyOf(read)
	current := read
	if newer := c.Store.Get(key); newer != nil && newer.GetUID() == read.GetUID() {
		current = newer
	}
	for try := 1; c.hasFinalizer(current); try++ {
		c.states.change(key, func(s *primaryState) { s.released = read.GetUID() }) // before the change may be delivered
		rest := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), c.isFinalizer)
		_, err := w.SendMergePatch(ctx, c.Resource.Writes, key, current, finalizers(rest), w.Defaults())
		if err == nil || errors.Is(err, client.ErrUndecodable) {
			return nil // the answer is not needed
		}
		c.states.look(key, func(s *primaryState) {
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
func (c *Controller) carryOut(ctx context.Context, rc *Run, read trc.Object, control Update) error {
	if !control.Resource && !control.Status {
		return nil
	}
	if rc.Gone {
		return fmt.Errorf("framework: UpdateControl of %s: there is nothing to write to, the primary is gone; see Context.Gone", c.Resource.Describe(rc.Key))
	}
	if err := c.checkReturned(rc.Key, read, control.Object); err != nil {
		return err
	}
	if c.Options.PrimaryWrites == write.ByApply {
		return c.carryOutByApply(ctx, rc, control)
	}
	return c.carryOutByPatch(ctx, rc, read, control)
}

func (c *Controller) checkReturned(key trc.Key, read trc.Object, returned trc.Object) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("framework: UpdateControl of %s: "+format, append([]any{c.Resource.Describe(key)}, args...)...)
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
		return fail("the object has a UID but no resourceVersion: it is no copy of the primary, and with a UID no fresh object; what it lacks would be removed")
	}
	return nil
}

func (c *Controller) carryOutByPatch(ctx context.Context, rc *Run, read trc.Object, control Update) error {
	patch, err := c.patchOf(read, control.Object, control, &rc.Reserved)
	if err != nil {
		return fmt.Errorf("framework: UpdateControl of %s: %w", c.Resource.Describe(rc.Key), err)
	}
	status, hasStatus := patch["status"]
	delete(patch, "status")
	send := func(patch map[string]any, subresource ...string) error {
		held := rc.Writes.Primary.Held() // every write changes it
		options := rc.Writes.Local.Defaults()
		options.Internal, options.Subresource = true, subresource
		_, err := rc.Writes.Local.SendMergePatch(ctx, c.Resource.Writes, rc.Key, held, patch, options)
		return err
	}
	if resource := c.Resource.Writes; control.Status && hasStatus && !resource.StatusApart.Load() {
		return c.sendWithStatus(ctx, rc, patch, status, control)
	}
	if control.Resource && len(patch) > 0 {
		if err := send(patch); err != nil {
			return err
		}
	}
	if control.Status && hasStatus {
		return c.statusError(ctx, rc.Key, send(map[string]any{"status": status}, "status"))
	}
	return nil
}

// patchOf returns the merge patch from the primary as it was read to the object that the author
// returned.
func (c *Controller) patchOf(read trc.Object, returned trc.Object, control Update, kept *reserved) (map[string]any, error) {
	isCopy, finalizer := returned.GetUID() != "", ""
	if control.Resource && c.Cleans() {
		finalizer = object.FinalizerOn(read, c.Options.Finalizer, c.former)
	}
	if isCopy && !control.Resource {
		if patch, ok, err := statusDifference(read, returned); ok {
			return patch, err
		}
	}
	if !isCopy {
		intent, err := object.Intent(c.GVK, returned)
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
	kept.restore(before, after)
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

func (c *Controller) carryOutByApply(ctx context.Context, rc *Run, control Update) error {
	created := control.Object.GetCreationTimestamp()
	if !created.IsZero() {
		return fmt.Errorf("framework: UpdateControl of %s: apply takes a fresh object that holds only the controller's own intent, not a changed copy of the primary (metadata.creationTimestamp is set): it would take over every field", c.Resource.Describe(rc.Key))
	}
	intent, err := object.Intent(c.GVK, control.Object)
	if err != nil {
		return err
	}
	options := rc.Writes.Local.Defaults()
	options.IsTyped = c.Resource.Form == object.Typed
	apart := c.Resource.Writes.StatusApart.Load()
	if control.Status && !apart && !control.Resource {
		return fmt.Errorf("framework: UpdateControl of %s: %s has no status sub-resource: an apply of the status alone would give up all other fields; apply both, or use PrimaryWrites ByPatch",
			c.Resource.Describe(rc.Key), c.GVK.Kind)
	}
	status := object.Status(rc.Key, intent)
	if apart || !control.Status {
		delete(intent, "status")
	}
	if control.Resource {
		if _, err := rc.Writes.Local.SendApply(ctx, c.Resource.Writes, rc.Key, intent, options); err != nil {
			return err
		}
	}
	if !control.Status || !apart {
		return nil
	}
	options.Subresource = []string{"status"}
	_, err = rc.Writes.Local.SendApply(ctx, c.Resource.Writes, rc.Key, status, options)
	return c.statusError(ctx, rc.Key, err)
}
