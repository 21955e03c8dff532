package write

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// errNothingSent marks the refusal of a request because its answer could not be handled. The server
// might carry it out.
var errNothingSent = errors.New("nothing was sent")

// isAnsweredAsOther checks a request to a sub-resource, with a verb of RBAC. It reports whether the
// answer is of another kind than the object, which is only possible for a patch of the scale.
func (c *Port) isAnsweredAsOther(ctx context.Context, r *client.Client, key trc.Key, verb string, options Options) (other bool, err error) {
	if len(options.Subresource) == 0 || options.IsStatus() {
		return false, nil // Client.StatusApart decides
	}
	name := options.Subresource[0]
	refuse := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("framework: %s %s of %s: %s; %w", verb, name, r.Describe(key), fmt.Sprintf(format, args...), errNothingSent)
	}
	sub, known, err := c.Subresource(ctx, r, name)
	if err != nil {
		return refuse("discovery failed: %v", err)
	}
	isSame := sub.Kind == r.GVK.Kind && (sub.Group == "" || sub.Group == r.GVK.Group)
	isScale := sub.Kind == "Scale" && sub.Group == "autoscaling"
	switch {
	case !known:
		return refuse("there is no such sub-resource, only %s", strings.Join(slices.Sorted(maps.Keys(*r.Subresources.Load())), ", "))
	case !slices.Contains(sub.Verbs, verb):
		return refuse("the API server does not offer that, only %s; a client of your own can send it within Do", strings.Join(sub.Verbs, ", "))
	case isSame:
		return false, nil
	case !isScale || verb != "patch":
		return refuse("it takes and answers a %s, not a %s: send it by a client of your own within Do", sub.Kind, r.GVK.Kind)
	case options.DryRun:
		return refuse("DryRun: the answer is a %s, which does not show the resulting %s", sub.Kind, r.GVK.Kind)
	}
	return true, nil
}

// readCarriedOut reads the object after a write that was carried out and whose answer was not the
// object. It returns no object and no error if there is none. Unlike Writer.read it records the
// proof before the object is added to the caches.
func (x *exchange) readCarriedOut(ctx context.Context, got client.Answer) (trc.Object, error) {
	gvk := x.resource.GVK
	x.w.answers.mark(gvk)
	before := x.port.Entries(gvk.GroupKind(), x.key)
	live, err := x.resource.Get(ctx, x.key)
	switch {
	case apierrors.IsNotFound(err):
		x.port.AcknowledgeNone(gvk, before, err)
		return nil, nil
	case live.Object == nil:
		x.leave()
		return nil, fmt.Errorf("framework: %s: it was carried out, but the result cannot be read: %w", x.describe(), err)
	}
	if about := got.About; about == nil || about.GetUID() != live.GetUID() || about.GetResourceVersion() != live.GetResourceVersion() {
		x.base, x.creates, x.applies = nil, false, false // another write may have come between
	}
	live.Noted = got.Noted
	x.take(ctx, live)
	return x.carriedOut(live.Object, live.Undecodable)
}

// createOnly sends an object that the server answers and does not store.
func (w *Writer) createOnly(ctx context.Context, r *client.Client, object trc.Object, options Options) (trc.Object, error) {
	key := trc.KeyOf(object)
	x := w.exchange(Request{verb: "create", resource: r, key: key, options: options, send: func(ctx context.Context) (client.Answer, error) {
		return r.Create(ctx, object, options.Options)
	}})
	if err := options.check(x.describe(), 0); err != nil {
		return nil, err
	}
	if r.Namespaced != (key.Namespace != "") {
		return nil, fmt.Errorf("framework: %s: namespace %q; is %s namespaced: %t", x.describe(), key.Namespace, r.GVK.Kind, r.Namespaced)
	}
	ctx, done, err := w.enter(ctx, "create", r, key)
	if err != nil {
		return nil, err
	}
	defer done()
	got, err := x.definite(ctx)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", x.describe(), err)
	}
	return got.Object, nil
}
