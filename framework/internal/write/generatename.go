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

// A create with a generateName gets a generated name here, before it is sent. If its answer is
// lost, the object is found by that name. The caller cannot find it: it never learned the name.

// maxMade is how many creates with generated names a run leaves to the next one.
const maxMade = 64

// exists handles the failure of a create with a generated name that may have been carried out
// before: its answer was lost, or the server failed on it. An object of that name is most likely
// its own, and is the answer then.
func (x *exchange) exists(ctx context.Context, refusal error) (trc.Object, error) {
	if !apierrors.IsAlreadyExists(refusal) {
		if live, err := x.readBack(ctx); err == nil && live.Object != nil && x.madeIt(live.Object) {
			return x.carriedOut(live.Object, live.undecodable)
		}
		return nil, x.refused(ctx, refusal)
	}
	err := x.refused(ctx, refusal)
	var met *Conflict
	if errors.As(err, &met) && met.Live != nil && x.madeIt(met.Live) {
		return x.carriedOut(met.Live, met.undecodable)
	}
	return nil, err
}

// madeIt reports whether a create with a generated name made the object of that name. The server
// may have changed the sent object (defaults, admission), and others may have changed the stored
// object since. Therefore the content is compared only if nothing else decides.
func (q *Request) madeIt(live trc.Object) bool {
	if q.generated == nil || live.GetName() != q.generated.GetName() || live.GetGenerateName() != q.generated.GetGenerateName() {
		return false
	}
	if len(othersThan(live, q.generated.GetOwnerReferences())) > 0 {
		return false // an owner's UID is in no other's objects
	}
	if managers := live.GetManagedFields(); len(managers) > 0 {
		by := q.manager()
		return slices.ContainsFunc(managers, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == by && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == ""
		})
	}
	sent, err := object.Content(q.generated)
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

// again makes the create an earlier one of this run with unknown outcome, if there is one of the
// same content: a second name would make a second object.
func (x *exchange) again() {
	if former, any := x.w.Run.unresolved.takeLike(&x.Request); any {
		x.Request, x.lost = former, true
		x.creates = true
	}
}

// madeBefore returns the object that a create of an earlier run has made, if the caller asks for
// the same object again. It returns nil if there is none. The earlier run never learned of the
// answer, and this run cannot see the object in a cache.
func (x *exchange) madeBefore(ctx context.Context) (trc.Object, error) {
	for {
		q, any := x.w.Run.made.takeLike(&x.Request)
		if !any {
			return nil, nil
		}
		former := x.w.exchange(q)
		live, err := former.readMade(ctx)
		switch {
		case err != nil:
			former.keepMade()
			return nil, fmt.Errorf("framework: %s: whether a former run made it is unknown: %w", x.describe(), err)
		case live.Object != nil && former.madeIt(live.Object):
			if live.undecodable != nil {
				former.keepMade()
			}
			return former.carriedOut(live.Object, live.undecodable)
		}
	}
}

// keepMade keeps a create for the next run: it made an object, or may have, and its caller got an
// error.
func (x *exchange) keepMade() {
	if x.w.Run.isRun() {
		x.w.Run.made.add(x.Request)
	}
}

// readMade reads the object that an earlier create may have made.
func (x *exchange) readMade(ctx context.Context) (found, error) {
	ctx, done, err := x.w.enter(ctx, "get", x.resource, x.key)
	if err != nil {
		return found{}, err
	}
	defer done()
	return x.readBack(ctx)
}

// isLike reports whether two creates with generated names are the same except for the names.
func (q *Request) isLike(other *Request) bool {
	if q.generated == nil || other.generated == nil || q.port != other.port || q.resource.GVK != other.resource.GVK || q.options.FieldManager != other.options.FieldManager {
		return false
	}
	one, err := namelessContentOf(q.generated)
	if err != nil {
		return false
	}
	two, err := namelessContentOf(other.generated)
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
	if q.generated == nil || q.options.DryRun {
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
