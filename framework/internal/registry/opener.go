package registry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Opener validates the secondaries of one controller and opens them. The exported fields are set
// before the first one is described.
type Opener struct {
	Host        *host.Host              // the operator that the controller belongs to
	Controller  string                  // the controller's name
	GVK         schema.GroupVersionKind // the kind of the primaries
	PrimaryType reflect.Type            // the Go type of primaries
	Scope       *cache.Scope            // the namespaces of secondaries without their own
	Sink        eventsource.Sink        // where the sources offer primaries
	AllDue      func(why string)        // makes all primaries due
	Fields      bool                    // causes name the fields that have changed

	// Set when the controller has its store, before the first secondary is opened.
	primaries  *cache.Store
	namespaced bool // primaries have namespaces
}

// Describe validates a secondary. Errors call it by the text of as until it has a name.
func (o *Opener) Describe(as string, secondary any) (source.Description, error) {
	if secondary == nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s is nil", o.Controller, as)
	}
	d := o.Host.Describe(secondary)
	if err := o.checkRelation(d); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", o.Controller, as, err)
	}
	var err error
	if d.Object, d.GVK, err = DeclaredKind(o.Host.Scheme, d.Object, d.GVK); err != nil {
		return source.Description{}, fmt.Errorf("framework: controller %q: %s: %w", o.Controller, as, err)
	}
	if d.Name == "" {
		d.Name = strings.ToLower(d.GVK.Kind)
	}
	var errs []error
	bad := func(field string, err error) {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %s: %w", o.Controller, d.Name, field, err))
	}
	if err := cache.CheckNamespaces(d.Namespaces); err != nil {
		bad("Namespaces", err)
	}
	if _, err := labels.Parse(d.Labels); err != nil {
		bad(fmt.Sprintf("LabelSelector %q", d.Labels), err)
	}
	if _, err := fields.ParseSelector(d.Fields); err != nil {
		bad(fmt.Sprintf("FieldSelector %q", d.Fields), err)
	}
	if err := d.Sync.Check(); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", o.Controller, d.Name, err))
	}
	o.GuardIndexes(d.Name, d.Indexes)
	if function := d.Authors(); function != "" {
		d.Mapping = &source.Mapping{Callback: o.Callback(function, d.Name)}
	}
	if err := errors.Join(d.TransformErr, d.Retention.Check(object.FormOf(d.Object))); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: secondary %q: %w", o.Controller, d.Name, err))
	}
	return d, errors.Join(errs...)
}

// reach sets the cluster of a secondary.
func (o *Opener) reach(d *source.Description) (err error) {
	if d.Cluster, err = o.Host.ClusterAt(d.Config); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: Cluster: %w", o.Controller, d.Name, err)
	}
	return nil
}

// leave gives back the cluster of a removed secondary.
func (o *Opener) leave(a *Entry) {
	if a.Supervised == nil {
		o.Host.LeaveCluster(a.Secondary.Config)
	}
}

// open opens the source of a secondary. Its namespaces are the controller's unless the secondary
// sets its own.
func (o *Opener) open(d source.Description, index string) (*source.Opened, error) {
	w := cache.Watch{Namespaces: o.Scope.Namespaces, Follows: o.Scope, Labels: d.Labels, Fields: d.Fields, Retention: d.Retention}
	if len(d.Namespaces) > 0 {
		w.Namespaces, w.Follows = cache.WatchedNamespaces(d.Namespaces), nil
	}
	store, err := d.Cluster.Open(d.Resource, w)
	if err != nil {
		return nil, err
	}
	found := &source.Opened{Store: store, Fetch: d.Cluster.Fetch(d.Resource)}
	if d.References != nil {
		found.Referred = index + "/referred"
	}
	o.restoreBy(d, found, index) // before any of the functions is called
	if d.References != nil {
		found.References = o.references(d)
		if d.Mapper, err = o.mapByReference(found.Referred, found.References); err != nil {
			o.Host.Release(store)
			return nil, err
		}
	} else if d.Mapper, err = o.mapperOf(d); err != nil {
		o.Host.Release(store)
		return nil, err
	}
	options := eventsource.InformerOptions{
		Name: d.Name, Index: index, Unindexed: d.References != nil, Kind: d.GVK.Kind, Cluster: d.Cluster.At, Fields: o.Fields,
		Map: d.Mapper, Filter: o.Filter("Filter", d.Name, d.Filter), Indexes: d.FiledUnder(),
		Of: o.Controller, Apart: d.Mapping != nil || d.Filter != nil,
		Missed: func() { o.AllDue(MissedSome) },
		Check:  d.Incomplete,
	}
	if d.Mapping != nil && d.References == nil {
		options.Map = d.Mapping.GuardedMapper(d.Mapper)
	}
	found.Informer = eventsource.NewInformer(store.Store, options)
	return found, nil
}

// restoreBy sets what happens when an author's function that blocked has returned: the index is
// filed again, and for a mapper all primaries become due.
func (o *Opener) restoreBy(d source.Description, found *source.Opened, index string) {
	store, referred := found.Store.Store, found.Referred
	refile := func(in *trc.Store, index string) {
		if err := in.Refile(index); err != nil {
			o.Host.Logger.Error(err, "cannot rebuild an index", "controller", o.Controller, "source", d.Name)
		}
	}
	if d.Mapping != nil {
		d.Mapping.Restore = func() {
			if d.References != nil {
				refile(o.primaries.Store, referred)
			} else {
				refile(store, index)
			}
			o.AllDue(askedAnew)
		}
	}
	for _, i := range d.Indexes {
		i.Mapping.Restore = func() { refile(store, index+"#"+i.Name) }
	}
}

// close closes what open has opened.
func (o *Opener) close(opened *source.Opened) {
	if opened.Referred != "" {
		o.primaries.RemoveIndex(opened.Referred)
	}
	o.Host.Release(opened.Store)
}

// Callback returns a guarded call of an author's function that belongs to one of the controller's
// sources.
func (o *Opener) Callback(function, source string) *author.Callback {
	return o.Host.Calls.New(fmt.Sprintf("%s of source %q of controller %q", function, source, o.Controller))
}

// Filter returns a filter that lets a change pass if the author's filter does not return. A
// run too many is better than a run too few. It returns nil for a nil filter.
func (o *Opener) Filter(function, source string, filter func(old, new trc.Object) bool) func(old, new trc.Object) bool {
	if filter == nil {
		return nil
	}
	callback := o.Callback(function, source)
	return func(old, new trc.Object) bool {
		var matters bool
		if callback.Do(safely.About(new, old), func() { matters = filter(old, new) }) != nil {
			return true
		}
		return matters
	}
}

// GuardIndexes guards the functions of indexes.
func (o *Opener) GuardIndexes(from string, indexes []source.Index) {
	for i := range indexes {
		d := &indexes[i]
		d.Mapping = &source.Mapping{Callback: o.Callback(fmt.Sprintf("Index %q", d.Name), from)}
	}
}

// DeclaredKind returns the kind of a type parameter, and an empty object of it. The kind of a typed
// object comes from the scheme, and declared must be empty then. An unstructured or metadata-only
// object has the declared kind. If sample is nil, the parameter is an interface: the scheme makes
// the objects of the declared kind.
func DeclaredKind(scheme *runtime.Scheme, sample trc.Object, declared schema.GroupVersionKind) (trc.Object, schema.GroupVersionKind, error) {
	switch {
	case sample == nil && declared.Empty():
		return nil, declared, errors.New("framework: GroupVersionKind: must be set for a type parameter that is an interface")
	case sample == nil:
		made, err := scheme.New(declared)
		if err != nil {
			return nil, declared, fmt.Errorf("framework: GroupVersionKind %q: %w", declared, err)
		}
		of, is := made.(trc.Object)
		if !is {
			return nil, declared, fmt.Errorf("framework: GroupVersionKind %q: %T is no object", declared, made)
		}
		return of, declared, nil
	case object.FormOf(sample) != object.Typed:
		sample.GetObjectKind().SetGroupVersionKind(declared)
	case !declared.Empty():
		return sample, declared, fmt.Errorf("framework: GroupVersionKind %q: must be empty for %T, the scheme knows it", declared, sample)
	}
	gvk, err := client.GVKOf(scheme, sample)
	return sample, gvk, err
}

// The reasons why all primaries are due after something was missed.
const (
	MissedSome = "changes were missed, as the author's code took too long"
	askedAnew  = "the author's code has returned, and was called again"
)
