package framework

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// The functions One, All, Each and GetNamed look up by the type of secondaries, for code that has
// no access to their [Secondary], such as shared functions and dependents.

// One returns the one secondary of the primary that is of type S, or nil if there is none. More
// than one is an error that names them; use [All] if several are normal.
//
// If several sources of the controller have secondaries of that type, pass the names of those to
// read. Without names that is an error that lists the sources.
func One[S Object](c Lookup, sources ...string) (S, error) {
	var none S
	if len(sources) == 0 {
		if all := sourcesOf[S](c); len(all) > 1 {
			return none, fmt.Errorf("framework: get the secondary of type %T of %s: several sources have objects of this type: name one of %s",
				none, c.lookup().Key, quoted(all))
		}
	}
	found, err := sharedOf[S](c, sources)
	return only[S](found, err, func() string { return fmt.Sprintf("secondary of type %T of %s", none, c.lookup().Key) })
}

// All returns all secondaries of the primary that are of type S, in no order. It reads the named
// sources, or all sources without names. An object that several sources of one cluster have is
// returned once, in its newest version.
func All[S Object](c Lookup, sources ...string) ([]S, error) {
	return copies[S](sharedOf[S](c, sources))
}

// Each is [All] as an iterator, which copies each secondary when the loop reaches it. That is
// cheaper for a loop that ends early. An error comes last and ends the iteration.
func Each[S Object](c Lookup, sources ...string) iter.Seq2[S, error] {
	return each[S](func() ([]trc.Object, error) { return sharedOf[S](c, sources) })
}

// GetNamed returns the object of type S with that name, whether it belongs to the primary or not.
// It reads the named sources, or all sources without names, and returns the newest version. It
// returns nil if no cache has the object. namespace is empty for cluster-scoped objects.
//
// The error wraps [ErrNotWatched] if no source watches the namespace. If sources of several
// clusters have such an object, the error names them.
func GetNamed[S Object](c Lookup, namespace, name string, sources ...string) (S, error) {
	var none S
	var outside error
	covered := false
	found, err := gather[S](c, sources, func(s *Secondary[S]) ([]trc.Object, error) {
		found, err := s.sharedNamed(c, namespace, name)
		if errors.Is(err, ErrNotWatched) {
			outside = err // another source may watch it
			return nil, nil
		}
		covered = true
		return found, err
	})
	if err == nil && !covered {
		err = outside
	}
	return only[S](found, err, func() string {
		return fmt.Sprintf("%T %s of one kind and cluster", none, trc.Key{Namespace: namespace, Name: name})
	})
}

// Each is [Secondary.List] as an iterator, which copies each secondary when the loop reaches it. An
// error comes last and ends the iteration.
func (s *Secondary[S]) Each(c Lookup) iter.Seq2[S, error] {
	return each[S](func() ([]trc.Object, error) { return s.shared(c) })
}

// Select returns those secondaries of the primary for which matches returns true, in no order. It
// does not copy the others, so it is cheaper than [Secondary.List] if few match.
//
// matches gets the cache's own objects. It must be pure, and must neither change nor keep them. It
// is also called with what could be decoded of an undecodable object. If it returns true for that,
// Select returns an error.
func (s *Secondary[S]) Select(c Lookup, matches func(shown metav1.Object) bool) ([]S, error) {
	found, err := s.selected(c, matches)
	return copies[S](found, err)
}

func (s *Secondary[S]) selected(c Lookup, matches func(metav1.Object) bool) ([]trc.Object, error) {
	informer, err := c.lookup().Informer(s)
	if err != nil {
		return nil, err
	}
	var all, found []trc.Object
	if keys, known := c.lookup().References(s); known {
		all, err = named(c, informer.Store(), keys)
	} else if err = checkUndecodable(c, informer.Store(), func(o trc.Object) []trc.Key {
		if !matches(o) {
			return nil
		}
		return informer.Primaries(o)
	}); err == nil {
		all, err = informer.Of(c.lookup().Key)
	}
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if matches(o) {
			found = append(found, o)
		}
	}
	c.lookup().RecordReads(informer.Store(), found...)
	return found, nil
}

// Primaries reads the primaries of the controller; see [Context.Primaries].
type Primaries[P Object] struct{ c *Context[P] }

// Primaries returns a reader for all primaries of the controller, not only the run's own, for
// example to check that only one of them claims a name. An [Index] in [ControllerOptions.Indexes]
// finds those that do. Reads see the cache overlaid with the operator's own writes. A change of
// another primary does not make the run's own primary due.
func (c *Context[P]) Primaries() Primaries[P] { return Primaries[P]{c} }

// Get returns a primary, or nil if the cache has none of that name. namespace is empty for
// cluster-scoped primaries. For a namespace that the controller does not watch the error wraps
// [ErrNotWatched].
func (p Primaries[P]) Get(namespace, name string) (P, error) {
	var none P
	if p.c.run.Ended.Load() {
		return none, ErrRunEnded
	}
	store := p.c.run.Controller.Store.Store
	if err := checkKey(store, p.c.run.Controller.Resource, namespace); err != nil {
		return none, err
	}
	found, err := sharedAt(p.c, store, trc.Key{Namespace: namespace, Name: name})
	if err != nil || found == nil {
		return none, err
	}
	return copyOf[P](found[0]), nil
}

// List returns private copies of the primaries of a namespace, in no order. With "" it returns all
// primaries that the controller watches. For a namespace that it does not watch the error wraps
// [ErrNotWatched].
func (p Primaries[P]) List(namespace string) ([]P, error) { return copies[P](p.shared(namespace)) }

// Each is [Primaries.List] as an iterator, which copies each primary when the loop reaches it. An
// error comes last and ends the iteration. An undecodable primary is an error, because it would be
// missing from the list.
func (p Primaries[P]) Each(namespace string) iter.Seq2[P, error] {
	return each[P](func() ([]trc.Object, error) { return p.shared(namespace) })
}

func (p Primaries[P]) shared(namespace string) ([]trc.Object, error) {
	if p.c.run.Ended.Load() {
		return nil, ErrRunEnded
	}
	store := p.c.run.Controller.Store.Store
	if namespace != "" {
		if err := checkWatched(store, namespace); err != nil {
			return nil, err
		}
	}
	for u := range store.AllUndecodable() {
		if namespace == "" || u.GetNamespace() == namespace {
			return nil, undecodableError(p.c, u)
		}
	}
	found := store.List(namespace, nil)
	p.c.run.RecordReads(store, found...)
	return found, nil
}

// sharedAt returns the object of a key from a cache, or none. The object is the cache's own.
func sharedAt(c Lookup, store *trc.Store, key trc.Key) ([]trc.Object, error) {
	o := store.Get(key)
	if o == nil {
		if u := store.Undecodable(key); u != nil {
			return nil, undecodableError(c, u)
		}
		return nil, nil
	}
	c.lookup().RecordReads(store, o)
	return []trc.Object{o}, nil
}

func (s *Secondary[S]) sharedNamed(c Lookup, namespace, name string) ([]trc.Object, error) {
	informer, err := c.lookup().Informer(s)
	if err != nil {
		return nil, err
	}
	if err := checkWatched(informer.Store(), namespace); err != nil {
		return nil, fmt.Errorf("%w (source %q)", err, informer.Name())
	}
	found, err := sharedAt(c, informer.Store(), trc.Key{Namespace: namespace, Name: name})
	if err == nil && found == nil {
		err = s.checkNamespace(c, namespace)
	}
	return found, err
}

// ErrNotWatched is wrapped by the error of a read in a namespace that its source does not watch.
var ErrNotWatched = errors.New("framework: the namespace is not watched")

func checkWatched(store *trc.Store, namespace string) error {
	switch {
	case store.IsWatched(namespace):
		return nil
	case namespace == "":
		return fmt.Errorf("%w: none is named, and only some are watched", ErrNotWatched)
	}
	return fmt.Errorf("%w: %s; see Secondary.Namespaces, ControllerOptions.Namespaces and OperatorOptions.Namespaces", ErrNotWatched, namespace)
}

// checkKey also refuses a namespace that does not fit the scope of the kind.
func checkKey(store *trc.Store, r *client.Client, namespace string) error {
	if err := checkWatched(store, namespace); err != nil {
		return err
	}
	switch {
	case r.Namespaced && namespace == "":
		return fmt.Errorf("framework: get %s: no namespace, and it is namespaced", r.GVK.Kind)
	case !r.Namespaced && namespace != "":
		return fmt.Errorf("framework: get %s: namespace %q, and it is cluster-scoped", r.GVK.Kind, namespace)
	}
	return nil
}

// checkNamespace returns an error if an object that was not found could not have been found in that
// namespace.
func (s *Secondary[S]) checkNamespace(c Lookup, namespace string) error {
	d := c.lookup().Controller.Sources.Find(func(d *source.Description) bool { return d.Key == any(s) })
	if d == nil || d.Resource == nil {
		return nil
	}
	informer, err := c.lookup().Informer(s)
	if err != nil {
		return err
	}
	return checkKey(informer.Store(), d.Resource, namespace)
}

// sourcesOf returns the names of the sources of a type.
func sourcesOf[S Object](c Lookup) []string {
	var names []string
	for _, d := range c.lookup().Registered() {
		if _, is := d.Key.(*Secondary[S]); is {
			names = append(names, d.Name)
		}
	}
	return names
}

func sharedOf[S Object](c Lookup, sources []string) ([]trc.Object, error) {
	return gather[S](c, sources, func(s *Secondary[S]) ([]trc.Object, error) { return s.shared(c) })
}

// gather reads from the named sources of a type, or from all. It returns the newest version of an
// object that several of them have.
func gather[S Object](c Lookup, names []string, read func(*Secondary[S]) ([]trc.Object, error)) ([]trc.Object, error) {
	if err := checkSources[S](c, names); err != nil {
		return nil, err
	}
	var all []trc.Object
	places := map[run.Identity]int{}
	for _, d := range c.lookup().Registered() {
		s, is := d.Key.(*Secondary[S])
		if !is || len(names) > 0 && !slices.Contains(names, d.Name) {
			continue
		}
		found, err := read(s)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			id := run.Identity{Cluster: d.Cluster, GVK: d.GVK, Key: trc.KeyOf(o)}
			at, known := places[id]
			switch {
			case !known:
				places[id] = len(all)
				all = append(all, o)
			case isNewer(o, all[at]):
				all[at] = o
			}
		}
	}
	return all, nil
}

// isNewer compares resource versions. Versions that are no integers cannot be compared, and are not
// newer.
func isNewer(o, than trc.Object) bool {
	order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), than.GetResourceVersion())
	return err == nil && order > 0
}

// checkSources refuses names that no source of the type has.
func checkSources[S Object](c Lookup, names []string) error {
	var none S
	known := sourcesOf[S](c)
	if err := checkActive[S](c, known, names); err != nil {
		return err
	}
	if len(known) == 0 {
		return fmt.Errorf("framework: no source of the controller has secondaries of type %T", none)
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("framework: no source named %q has secondaries of type %T; there are %s", name, none, quoted(known)))
		}
	}
	return errors.Join(errs...)
}

// checkActive returns ErrInactive for a source that exists only while a node of the workflow is
// active, and that does not exist now.
func checkActive[S Object](c Lookup, known, names []string) error {
	for _, d := range c.lookup().DormantSecondaries() {
		if _, is := d.Key.(*Secondary[S]); !is || slices.Contains(known, d.Name) {
			continue
		}
		if len(known) == 0 && len(names) == 0 || slices.Contains(names, d.Name) {
			return fmt.Errorf("framework: source %q: %w", d.Name, ErrInactive)
		}
	}
	return nil
}

func quoted(names []string) string { return fmt.Sprintf("%q", names) }

// only returns the single object of a list, or nil if the list is empty. More than one is an error.
func only[S Object](found []trc.Object, err error, what func() string) (S, error) {
	var none S
	switch {
	case err != nil || len(found) == 0:
		return none, err
	case len(found) == 1:
		return copyOf[S](found[0]), nil
	}
	names := make([]string, len(found))
	for i, o := range found {
		names[i] = trc.KeyOf(o).String()
	}
	slices.Sort(names)
	return none, fmt.Errorf("framework: get the %s: there are %d: %s", what(), len(found), strings.Join(names, ", "))
}

// each returns an iterator that copies objects one by one.
func each[S Object](read func() ([]trc.Object, error)) iter.Seq2[S, error] {
	return func(yield func(S, error) bool) {
		found, err := read()
		if err != nil {
			var none S
			yield(none, err)
			return
		}
		for _, o := range found {
			if !yield(copyOf[S](o), nil) {
				return
			}
		}
	}
}

// copies returns copies of all objects.
func copies[S Object](found []trc.Object, err error) ([]S, error) {
	if err != nil {
		return nil, err
	}
	all := make([]S, len(found))
	for i, o := range found {
		all[i] = copyOf[S](o)
	}
	return all, nil
}

// checkUndecodable returns an error if a secondary of the primary is undecodable, because reads
// would miss it. It maps what could be decoded of the object.
func checkUndecodable(c Lookup, store *trc.Store, maps func(trc.Object) []trc.Key) error {
	for u := range store.AllUndecodable() {
		for _, primary := range maps(u.Object) {
			if primary == c.lookup().Key {
				return undecodableError(c, u)
			}
		}
	}
	return nil
}

func undecodableError(c Lookup, u *trc.Undecodable) error {
	if errors.Is(u.Err, cache.ErrUnread) {
		return fmt.Errorf("framework: secondary %s of %s: %w", trc.KeyOf(u), c.lookup().Key, u.Err)
	}
	return fmt.Errorf("framework: secondary %s of %s does not fit its Go type: %w", trc.KeyOf(u), c.lookup().Key, u.Err)
}
