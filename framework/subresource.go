package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// Sub-resources whose answer is another kind than the object's, and kinds that are only created and never
// stored: both either work, or are refused before anything is sent.

// onlyAsSubresource are the kinds that are posted to a sub-resource of another object, by its path.
var onlyAsSubresource = map[schema.GroupKind]string{
	{Group: "authentication.k8s.io", Kind: "TokenRequest"}: "serviceaccounts/token",
	{Group: "policy", Kind: "Eviction"}:                    "pods/eviction",
	{Group: "autoscaling", Kind: "Scale"}:                  "…/scale",
	{Kind: "Binding"}:                                      "pods/binding",
	{Kind: "PodExecOptions"}:                               "pods/exec",
	{Kind: "PodAttachOptions"}:                             "pods/attach",
	{Kind: "PodPortForwardOptions"}:                        "pods/portforward",
	{Kind: "PodProxyOptions"}:                              "pods/proxy",
	{Kind: "ServiceProxyOptions"}:                          "services/proxy",
	{Kind: "NodeProxyOptions"}:                             "nodes/proxy",
}

// asSubresource returns why objects of a kind cannot be written by themselves, nil if they can.
func asSubresource(gvk schema.GroupVersionKind) error {
	path, is := onlyAsSubresource[gvk.GroupKind()]
	if !is {
		return nil
	}
	return fmt.Errorf("a %s is sent to the sub-resource %s of another object and changes that: "+
		"send it by a client of your own within Do, about that object", gvk.Kind, path)
}

// isOnlyCreated reports whether objects of a resource are answered, and never stored, as those of a
// SubjectAccessReview.
func isOnlyCreated(served metav1.APIResource) bool {
	return slices.Contains(served.Verbs, "create") && !slices.Contains(served.Verbs, "get") && !slices.Contains(served.Verbs, "list")
}

// subresources are those of a resource by their name.
type subresources map[string]metav1.APIResource

func (s subresources) has(name string) bool { _, has := s[name]; return has }

func subresourcesOf(name string, list []metav1.APIResource) subresources {
	found := subresources{}
	for _, r := range list {
		if sub, is := strings.CutPrefix(r.Name, name+"/"); is {
			found[sub] = r
		}
	}
	return found
}

// errNothingSent marks the refusals of a request that the server would carry out, or may, but whose answer
// could not be taken in.
var errNothingSent = errors.New("nothing was sent")

// isAnsweredAsOther checks what is asked of the sub-resource of an object, by the verb of RBAC, and reports
// whether the answer is of another kind than the object. Only a patch of the scale can be.
func (c *cluster) isAnsweredAsOther(ctx context.Context, r *resource, key trc.Key, verb string, options writeOptions) (other bool, err error) {
	if len(options.subresource) == 0 || options.isStatus() {
		return false, nil // statusApart tells
	}
	name := options.subresource[0]
	refuse := func(format string, args ...any) (bool, error) {
		return false, fmt.Errorf("framework: %s %s of %s: %s; %w", verb, name, r.describe(key), fmt.Sprintf(format, args...), errNothingSent)
	}
	sub, known, err := c.subresource(ctx, r, name)
	if err != nil {
		return refuse("the API server does not tell what it is: %v", err)
	}
	isSame := sub.Kind == r.gvk.Kind && (sub.Group == "" || sub.Group == r.gvk.Group)
	isScale := sub.Kind == "Scale" && sub.Group == "autoscaling"
	switch {
	case !known:
		return refuse("there is no such sub-resource, only %s", strings.Join(slices.Sorted(maps.Keys(*r.subresources.Load())), ", "))
	case !slices.Contains(sub.Verbs, verb):
		return refuse("the API server does not offer that, only %s; a client of your own can send it within Do", strings.Join(sub.Verbs, ", "))
	case isSame:
		return false, nil
	case !isScale || verb != "patch":
		return refuse("it takes and answers a %s, not a %s: send it by a client of your own within Do", sub.Kind, r.gvk.Kind)
	case options.dryRun:
		return refuse("DryRun: the answer is a %s, which does not tell what the %s would be", sub.Kind, r.gvk.Kind)
	}
	return true, nil
}

// subresource asks discovery anew for one that it did not know: the definition of a custom kind may have
// changed.
func (c *cluster) subresource(ctx context.Context, r *resource, name string) (metav1.APIResource, bool, error) {
	if sub, known := (*r.subresources.Load())[name]; known {
		return sub, true, nil
	}
	_, now, err := c.served(ctx, r.gvk)
	if err != nil {
		return metav1.APIResource{}, false, err
	}
	r.subresources.Store(&now)
	sub, known := now[name]
	return sub, known, nil
}

// patchPart sends a patch whose answer is of another kind. Of that it keeps which object and version it is about.
func (r *resource) patchPart(ctx context.Context, key trc.Key, kind types.PatchType, body []byte, options requestOptions) (answer, error) {
	request := r.at(options.on(r.client.Patch(kind)), key.Namespace, options.names(key)...).
		SetHeader("Accept", runtime.ContentTypeJSON).Body(body)
	if err := request.Error(); err != nil {
		return answer{}, errors.Join(errUnsent, err)
	}
	raw, err := atOnce(request).Do(ctx).Raw()
	if err != nil {
		return answer{}, err
	}
	about := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(raw, about) != nil {
		about = nil // the read tells all
	}
	return answer{about: about}, nil
}

// readCarriedOut follows a write that was carried out, whose answer was not the object: it reads that. No object and no error
// means that there is none. It does what [writer.read] does, but that the proof must come before what is read is shown.
func (w *writer) readCarriedOut(ctx context.Context, q write, got answer) (Object, error) {
	gvk := q.resource.gvk
	w.wrote(gvk)
	before := w.cluster.sightings(gvk.GroupKind(), q.key)
	live, err := q.resource.get(ctx, q.key)
	switch {
	case apierrors.IsNotFound(err):
		w.cluster.acknowledgeNone(gvk, before, err)
		return nil, nil
	case live.Object == nil:
		w.leave(q)
		return nil, fmt.Errorf("framework: %s: it was carried out, but what came of it cannot be read: %w", q.describe(), err)
	}
	if about := got.about; about == nil || about.GetUID() != live.GetUID() || about.GetResourceVersion() != live.GetResourceVersion() {
		q.base, q.creates, q.applies = nil, false, false // somebody may have come between
	}
	live.noted = got.noted
	w.take(ctx, q, live)
	return q.carriedOut(live.Object, live.undecodable)
}

// watchable is resourceOf for what is to be listed and watched.
func (c *cluster) watchable(ctx context.Context, sample runtime.Object, gvk schema.GroupVersionKind) (*resource, error) {
	r, err := c.resourceOf(ctx, sample, gvk)
	switch {
	case err != nil:
		return nil, err
	case r.onlyCreated:
		return nil, fmt.Errorf("%w: objects of %s are never stored, they cannot be watched", errMisuse, gvk)
	case r.newList == nil:
		return nil, fmt.Errorf("%w: the list type of %s is not registered in it", errMisuse, gvk)
	}
	return r, nil
}

// createOnly sends an object that the server answers and does not store.
func (w *writer) createOnly(ctx context.Context, r *resource, object Object, options writeOptions) (Object, error) {
	key := trc.KeyOf(object)
	q := write{verb: "create", resource: r, key: key, options: options, send: func(ctx context.Context) (answer, error) {
		return r.create(ctx, object, options.requestOptions)
	}}
	if err := options.check(q.describe(), 0); err != nil {
		return nil, err
	}
	if r.namespaced != (key.Namespace != "") {
		return nil, fmt.Errorf("framework: %s: namespace %q; is %s namespaced: %t", q.describe(), key.Namespace, r.gvk.Kind, r.namespaced)
	}
	ctx, done, err := w.begin(ctx, request{"create", r, key, w.run})
	if err != nil {
		return nil, err
	}
	defer done()
	got, _, err := w.definite(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", q.describe(), err)
	}
	return got.Object, nil
}
