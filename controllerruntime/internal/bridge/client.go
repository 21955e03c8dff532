package bridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/evenkeel/evenkeel/framework"
)

// Client is the client of reconcilers. In a run it reads the kinds that the controller watches from
// the operator's caches, and writes through the run. Outside of runs, and for other kinds, it is
// the manager's client.
type Client struct {
	client.Client // of the manager
	live          client.Reader
}

// runKey is where a run is in a ctx.
type runKey struct{}

// run is one run of a reconciler.
type run struct {
	*target
	lookup    framework.Lookup
	writes    framework.Writes
	key       types.NamespacedName
	gone      bool // the primary does not exist
	primaries reader
	options   []framework.WriteOption // of every write
}

func runOf[P framework.Object](a *adapted[P], c *framework.Context[P]) *run {
	r := &run{
		target: a.target, lookup: c, writes: c, key: c.Key(), gone: c.Gone(),
		primaries: reconciled[P]{c.Primaries(), a.fields},
	}
	if a.ownWritesTrigger {
		r.options = []framework.WriteOption{framework.Unfiltered()}
	}
	return r
}

// in returns the run that a ctx belongs to, nil if there is none.
func in(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// reading returns the reader of a kind, nil if the controller does not watch it, or only its
// metadata and into is for more.
func (r *run) reading(kind schema.GroupVersionKind, into runtime.Object) reader {
	of := r.sources[kind]
	if kind == r.kind {
		of = r.primaries
	}
	switch into.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return of
	}
	if of == nil || !of.whole() {
		return nil
	}
	return of
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.Get(ctx, key, into, opts...)
	}
	kind, err := apiutil.GVKForObject(into, c.Scheme())
	if err != nil {
		return err
	}
	read := r.reading(kind, into)
	if read == nil {
		return c.Client.Get(ctx, key, into, opts...)
	}
	if o := (&client.GetOptions{}).ApplyOptions(opts); o.Raw != nil {
		return c.live.Get(ctx, key, into, opts...)
	}
	if kind == r.kind && key == r.key && r.gone {
		return notFound(kind, key)
	}
	found, err := read.get(r.lookup, key.Namespace, key.Name)
	switch {
	case errors.Is(err, framework.ErrNotWatched):
		return c.live.Get(ctx, key, into, opts...)
	case err != nil:
		return err
	case found == nil:
		return notFound(kind, key)
	}
	return assign(into, found, kind)
}

func notFound(kind schema.GroupVersionKind, key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

// assign makes into what from is. from is the caller's own.
func assign(into, from runtime.Object, kind schema.GroupVersionKind) error {
	if reflect.TypeOf(into) == reflect.TypeOf(from) {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
		into.GetObjectKind().SetGroupVersionKind(kind)
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return err
	}
	if u, is := into.(runtime.Unstructured); is {
		u.SetUnstructuredContent(content)
	} else {
		value := reflect.ValueOf(into).Elem()
		value.Set(reflect.Zero(value.Type()))
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, into); err != nil {
			return err
		}
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// List reads the objects that fit.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	r := in(ctx)
	if r == nil {
		return c.Client.List(ctx, list, opts...)
	}
	kind, err := c.kindOfItems(list)
	if err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	read := r.reading(kind, list)
	switch {
	case read == nil:
		return c.Client.List(ctx, list, opts...)
	case o.Raw != nil:
		return c.live.List(ctx, list, opts...)
	case o.Continue != "":
		return fmt.Errorf("controllerruntime: List: Continue %q: is not supported, a cache has no pages", o.Continue)
	}
	found, err := r.candidates(read, o)
	if err != nil {
		return err
	}
	var items []runtime.Object
	for object, err := range found {
		if errors.Is(err, framework.ErrNotWatched) {
			return c.live.List(ctx, list, opts...)
		}
		if err != nil {
			return err
		}
		if !fits(object, o) {
			continue
		}
		if o.Limit > 0 && int64(len(items)) == o.Limit {
			break
		}
		item, err := newItem(list, object, kind)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return meta.SetList(list, items)
}

// kindOfItems returns the kind of a list's items.
func (c *Client) kindOfItems(list client.ObjectList) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(list, c.Scheme())
	if err != nil {
		return kind, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, nil
}

// candidates returns objects among which are all that fit.
func (r *run) candidates(read reader, o *client.ListOptions) (iter.Seq2[framework.Object, error], error) {
	if o.FieldSelector == nil || o.FieldSelector.Empty() {
		return read.each(r.lookup, o.Namespace), nil
	}
	var found iter.Seq2[framework.Object, error]
	for i, requirement := range o.FieldSelector.Requirements() {
		if requirement.Operator != selection.Equals && requirement.Operator != selection.DoubleEquals {
			return nil, fmt.Errorf("controllerruntime: List: field selector %q: only = is supported", o.FieldSelector)
		}
		filed, known := read.filed(r.lookup, requirement.Field, requirement.Value)
		switch {
		case !known && !isName(requirement):
			return nil, fmt.Errorf("controllerruntime: List: field selector %q: there is no index of that field: see IndexField", o.FieldSelector)
		case !known:
			filed = read.each(r.lookup, o.Namespace)
		}
		if i > 0 {
			filed = both(found, filed)
		}
		found = filed
	}
	return found, nil
}

// isName reports whether a requirement is about what every object has.
func isName(r fields.Requirement) bool {
	return r.Field == "metadata.name" || r.Field == "metadata.namespace"
}

// both returns the objects that are in both.
func both(a, b iter.Seq2[framework.Object, error]) iter.Seq2[framework.Object, error] {
	return func(yield func(framework.Object, error) bool) {
		known := map[types.UID]bool{}
		for o, err := range a {
			if err != nil {
				yield(nil, err)
				return
			}
			known[o.GetUID()] = true
		}
		for o, err := range b {
			if (err != nil || known[o.GetUID()]) && !yield(o, err) {
				return
			}
		}
	}
}

// fits reports whether an object fits the options, but for indexed fields.
func fits(object framework.Object, o *client.ListOptions) bool {
	if o.Namespace != "" && object.GetNamespace() != o.Namespace {
		return false
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	for _, requirement := range o.FieldSelector.Requirements() {
		is := map[string]string{"metadata.name": object.GetName(), "metadata.namespace": object.GetNamespace()}
		if value, known := is[requirement.Field]; known && value != requirement.Value {
			return false
		}
	}
	return true
}
