package write

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// A create with a generateName gets a random name here, before it is sent. If its answer is lost,
// the object is found by that name. The caller cannot find it: it never learned the name.

// maxMade is how many creates with random names a run leaves to the next one.
const maxMade = 64

// exists handles the failure of a create with a random name that may have been carried out before:
// its answer was lost, or the server failed on it. An object of that name is most likely its own,
// and is the answer then.
func (w *Writer) exists(ctx context.Context, q Request, lost bool, refusal error) (trc.Object, error) {
	if !apierrors.IsAlreadyExists(refusal) {
		if live, err := w.readBack(ctx, q); err == nil && live.Object != nil && q.made(live.Object) {
			return q.carriedOut(live.Object, live.undecodable)
		}
		return nil, w.refused(ctx, q, lost, refusal)
	}
	err := w.refused(ctx, q, lost, refusal)
	var met *Conflict
	if errors.As(err, &met) && met.Live != nil && q.made(met.Live) {
		return q.carriedOut(met.Live, met.undecodable)
	}
	return nil, err
}

// made reports whether a create with a random name made the object of that name. The server may
// have changed the sent object (defaults, admission), and others may have changed the stored object
// since. Therefore the content is compared only if nothing else decides.
func (q *Request) made(live trc.Object) bool {
	if q.drawn == nil || live.GetName() != q.drawn.GetName() || live.GetGenerateName() != q.drawn.GetGenerateName() {
		return false
	}
	if len(othersThan(live, q.drawn.GetOwnerReferences())) > 0 {
		return false // an owner's UID is in no other's objects
	}
	if managers := live.GetManagedFields(); len(managers) > 0 {
		by := q.manager()
		return slices.ContainsFunc(managers, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == by && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == ""
		})
	}
	sent, err := object.Content(q.drawn)
	if err != nil {
		return false
	}
	stored, err := object.Content(live)
	if err != nil {
		return false
	}
	delete(sent, "status")
	for _, content := range []map[string]any{sent, stored} {
		delete(content, "apiVersion")
		delete(content, "kind")
		object.DropNulls(content)
		object.DropServerFields(content)
	}
	return isPartOf(sent, stored)
}

// manager returns the field manager as the server records it.
func (q *Request) manager() string {
	if q.options.FieldManager != "" {
		return q.options.FieldManager
	}
	agent, _, _ := strings.Cut(q.resource.Agent, "/")
	return agent
}

// isPartOf reports whether the stored content holds all of the sent content. Empty objects and
// lists may be missing.
func isPartOf(sent, stored any) bool {
	switch sent := sent.(type) {
	case map[string]any:
		fields, _ := stored.(map[string]any)
		for name, value := range sent {
			if !isPartOf(value, fields[name]) {
				return false
			}
		}
		return true
	case []any:
		items, _ := stored.([]any)
		if len(items) != len(sent) {
			return false
		}
		for i := range sent {
			if !isPartOf(sent[i], items[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(sent, stored)
}

// again returns the create to send. That is an earlier one of this run with unknown outcome if its
// content is the same: a second name would make a second object.
func (w *Writer) again(q Request) Request {
	local := w.Home()
	local.mu.Lock()
	defer local.mu.Unlock()
	at := slices.IndexFunc(local.unresolved, func(former Request) bool { return former.isFor(q, w.Port) })
	if at < 0 {
		return q
	}
	former := local.unresolved[at]
	local.unresolved = slices.Delete(local.unresolved, at, at+1)
	former.tried, former.creates = true, true
	return former
}

// madeBefore returns the object that a create of an earlier run has made, if the caller asks for
// the same object again. It returns nil if there is none. The earlier run never learned of the
// answer, and this run cannot see the object in a cache.
func (w *Writer) madeBefore(ctx context.Context, q Request) (trc.Object, error) {
	local := w.Home()
	for {
		local.mu.Lock()
		at := slices.IndexFunc(local.made, func(former Request) bool { return former.isFor(q, w.Port) })
		if at < 0 {
			local.mu.Unlock()
			return nil, nil
		}
		former := local.made[at]
		local.made = slices.Delete(local.made, at, at+1)
		local.mu.Unlock()
		live, err := w.readMade(ctx, former)
		switch {
		case err != nil:
			w.keepMade(former)
			return nil, fmt.Errorf("framework: %s: whether a former run made it is unknown: %w", q.describe(), err)
		case live.Object != nil && former.made(live.Object):
			if live.undecodable != nil {
				w.keepMade(former)
			}
			return former.carriedOut(live.Object, live.undecodable)
		}
	}
}

// keepMade keeps a create for the next run: it made an object, or may have, and its caller got an
// error.
func (w *Writer) keepMade(q Request) {
	if !w.inRun() {
		return
	}
	q.port = w.Port
	local := w.Home()
	local.mu.Lock()
	defer local.mu.Unlock()
	local.made = append(local.made, q)
}

// readMade reads the object that an earlier create may have made.
func (w *Writer) readMade(ctx context.Context, q Request) (found, error) {
	ctx, done, err := w.enter(ctx, underway{"get", q.resource, q.key, w.Run})
	if err != nil {
		return found{}, err
	}
	defer done()
	return w.readBack(ctx, q)
}

// isFor reports whether two creates with random names are the same except for the names.
func (q *Request) isFor(other Request, in *Port) bool {
	if q.drawn == nil || other.drawn == nil || q.port != in || q.resource.GVK != other.resource.GVK || q.options.FieldManager != other.options.FieldManager {
		return false
	}
	one, err := namelessContentOf(q.drawn)
	if err != nil {
		return false
	}
	two, err := namelessContentOf(other.drawn)
	return err == nil && reflect.DeepEqual(one, two)
}

// namelessContentOf returns the content of an object without its name.
func namelessContentOf(o trc.Object) (map[string]any, error) {
	content, err := object.Content(o)
	if err != nil {
		return nil, err
	}
	metadata, _ := content["metadata"].(map[string]any)
	delete(metadata, "name")
	delete(content, "apiVersion")
	delete(content, "kind")
	return content, nil
}

// isHidden reports whether a run cannot find the object that an earlier run has created: its name
// is random, and no cache that the controller reads has it.
func (q *Request) isHidden(read []*cache.Store) bool {
	if q.drawn == nil || q.options.DryRun {
		return false
	}
	return !slices.ContainsFunc(read, func(s *cache.Store) bool {
		return q.port != nil && s.Cluster == q.port.Cluster && s.Key.GVK.GroupKind() == q.resource.GVK.GroupKind() && s.Get(q.key) != nil
	})
}

// generateName makes a name like the API server does: five random characters, within 63.
func generateName(base string) string {
	const suffix, longest = 5, 63
	return base[:min(len(base), longest-suffix)] + rand.String(suffix)
}
