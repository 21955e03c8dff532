package write

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// applyByPatch is an apply without server-side apply. It creates the object, or patches what
// differs from the present object. It sends nothing if the same intent made the object what it is.
func (i *intent) applyByPatch(ctx context.Context, desired trc.Object) (trc.Object, error) {
	desired, err := object.Copy(desired)
	if err != nil {
		return nil, err
	}
	p := patchApply{intent: *i, desired: desired}
	p.by = applier{manager: p.options.FieldManager, byPatch: true}
	p.options.IsTyped = object.FormOf(desired) == object.Typed
	if err := p.w.relate(p.resource, desired, p.options); err != nil {
		return nil, err
	}
	var current trc.Object
	if !p.options.IfAbsent {
		if current, err = p.current(ctx); err != nil {
			return nil, err
		}
	}
	if current == nil {
		return p.create(ctx)
	}
	return p.change(ctx, current)
}

// patchApply is an apply that is sent as a create or as a merge patch.
type patchApply struct {
	intent
	desired trc.Object // a copy, which names the primary if the options ask for that
}

// current returns a private copy of the object that the patch is computed from, nil if there is
// none. It must be the object and the version that desired is for.
func (p *patchApply) current(ctx context.Context) (trc.Object, error) {
	port, r, key := p.w.Port, p.resource, p.key
	if p.options.authorVersion != "" {
		base := port.Newest(r, key)
		if base == nil || base.GetResourceVersion() != p.options.authorVersion {
			var err error
			if base, err = p.atVersion(ctx); err != nil {
				return nil, err
			}
		}
		return object.Copy(base)
	}
	current, err := port.Current(ctx, r, key)
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	if uid := p.desired.GetUID(); uid != "" && (current == nil || current.GetUID() != uid) {
		another := apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf("there is no object with UID %s", uid))
		return nil, p.refused(ctx, another)
	}
	return current, nil
}

// create creates the object that does not exist.
func (p *patchApply) create(ctx context.Context) (trc.Object, error) {
	if err := p.setContent(); err != nil {
		return nil, err
	}
	options := p.options
	options.IfAbsent, options.Matches = false, nil // a create only makes missing objects
	created, err := p.w.Create(ctx, p.desired, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		err = &Conflict{error: err, Live: p.w.Port.NewestMetadata(p.resource, p.key)} // the cache has it now
	case err == nil && !p.options.DryRun:
		p.remember(created)
	}
	return created, err
}

// change patches what differs between the current object and the desired one.
func (p *patchApply) change(ctx context.Context, current trc.Object) (trc.Object, error) {
	if p.options.Owned {
		// A merge patch replaces the list: it must hold the owners that others have added, too.
		p.desired.SetOwnerReferences(append(p.desired.GetOwnerReferences(), othersThan(p.desired, current.GetOwnerReferences())...))
	}
	if p.options.Matches != nil {
		if matched, err := p.matches(current, p.desired); matched || err != nil {
			return current, err
		}
	}
	if err := p.setContent(); err != nil {
		return nil, err
	}
	if p.isPatched(current) {
		return current, nil
	}
	var keys object.ListKeys
	if p.desired.GetUID() == "" { // a changed copy holds its lists completely
		keys = object.ListKeysOf(p.w.Port.Scheme, p.resource.GVK, p.desired)
	}
	difference, err := object.Additions(current, p.content, keys)
	if err != nil || difference == nil {
		return current, err
	}
	stored, err := p.sendDifference(ctx, current, difference)
	if err == nil && !p.options.DryRun {
		p.remember(stored)
	}
	return stored, err
}

// setContent sets what an apply by patch wants of the desired object, before it is compared, and
// its JSON form.
func (p *patchApply) setContent() (err error) {
	if p.content, err = object.Intent(p.resource.GVK, p.desired); err != nil {
		return err
	}
	delete(p.content, "status")
	object.KeepFinalizerIfListed(p.content, p.w.primary.finalizerToKeep(p.resource, p.key))
	return p.encode()
}

// isPatched reports whether current is known to be what the server makes of the intent. The server
// fills in defaults and rewrites values, so a stored object may differ from any intent for ever.
func (p *patchApply) isPatched(current trc.Object) bool {
	if p.options.authorVersion != "" || p.options.DryRun || p.options.Unconditional {
		return false
	}
	held := p.w.Port.Newest(p.resource, p.key)
	if held == nil || held.GetResourceVersion() != current.GetResourceVersion() {
		return false
	}
	_, is := p.isConfirmed(held)
	return is
}

// sendDifference sends the patch that turns current into the desired object.
func (p *patchApply) sendDifference(ctx context.Context, current trc.Object, difference map[string]any) (trc.Object, error) {
	body, err := json.Marshal(difference)
	if err != nil {
		return nil, err
	}
	changes := rewrite{
		w: p.w, resource: p.resource, from: p.desired, options: p.options, anyVersion: true, spelledOut: true,
		becomes: patchedBy(types.MergePatchType, body),
	}
	if err := changes.checkPruned(ctx); err != nil {
		return nil, err
	}
	return p.w.SendMergePatch(ctx, p.resource, p.key, current, difference, p.options)
}
