package source

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// IsPlain reports whether a secondary is declared without functions. Functions cannot be compared.
func (d *Description) IsPlain() bool {
	return d.Relation == nil && d.Mapper == nil && d.Filter == nil && d.References == nil && len(d.Indexes) == 0
}

// Identical reports whether two sources are the same.
func Identical(one, two eventsource.Source) bool {
	return reflect.TypeOf(one) == reflect.TypeOf(two) && reflect.TypeOf(one).Comparable() && one == two
}

// Text describes what is watched, for errors.
func (d *Description) Text() string {
	text := "a secondary of " + d.GVK.String()
	if len(d.Namespaces) > 0 {
		text += fmt.Sprintf(" in %q", d.Namespaces)
	}
	if d.Labels != "" {
		text += " with " + d.Labels
	}
	if d.Fields != "" {
		text += " where " + d.Fields
	}
	return text + d.Retention.Describe()
}

// Opened is an open secondary.
type Opened struct {
	Store    *cache.Store          // its cache
	Informer *eventsource.Informer // maps its objects to primaries
	// References returns the secondaries that a primary refers to. Referred is the name of the index
	// for them. Both are empty unless primaries refer to the secondaries.
	References eventsource.Mapper
	Referred   string
	// Fetch reads a whole object from the API server.
	Fetch trc.Fetch
}

// Authors returns the name of the author's function that relates secondaries and primaries, empty
// if there is none.
func (d *Description) Authors() string {
	switch {
	case d.References != nil:
		return "Referred"
	case d.Mapper != nil:
		return "Map"
	case !IsOurs(d.Relation):
		return "By"
	}
	return ""
}

// IsOurs reports whether a relation is one of this library's, not the author's.
func IsOurs(r eventsource.Relation) bool {
	switch r := r.(type) {
	case nil, eventsource.Owners, eventsource.PrimaryRef, eventsource.Names:
		return true
	case eventsource.AnyOf:
		return !slices.ContainsFunc(r, func(one eventsource.Relation) bool { return !IsOurs(one) })
	}
	return false
}

// FiledUnder returns the indexes of a secondary, for its informer.
func (d *Description) FiledUnder() map[string]func(trc.Object) []string {
	all := make(map[string]func(trc.Object) []string, len(d.Indexes))
	for _, i := range d.Indexes {
		all[i.Name] = i.Guarded()
	}
	return all
}

// Incomplete returns why an index lacks objects, or, for "", why the mapping to primaries does. It
// returns nil if nothing is missing.
func (d Description) Incomplete(index string) error {
	if index == "" {
		return d.Mapping.Err()
	}
	for _, i := range d.Indexes {
		if i.Name == index {
			return i.Mapping.Err()
		}
	}
	return nil
}

// Description is a Secondary without its type parameter.
type Description struct {
	Name         string                         // unique in the controller
	Object       trc.Object                     // an empty object
	GVK          schema.GroupVersionKind        // its kind
	Namespaces   []string                       // to watch; none for the controller's
	Labels       string                         // the label selector
	Fields       string                         // the field selector
	Retention    cache.Retention                // what its cache keeps
	TransformErr error                          // the error of Transform
	Config       *rest.Config                   // of a remote cluster, or nil
	Cluster      *write.Port                    // the cluster of Config
	Sync         SyncPolicy                     // what happens if it is not filled in time
	Relation     eventsource.Relation           // Secondary.By, or nil
	Mapper       eventsource.Mapper             // Secondary.Map, or nil
	Filter       func(old, new trc.Object) bool // Secondary.Filter, or nil
	Resource     *client.Client                 // nil before discovery

	Indexes []Index // of its objects
	// Mapping guards Relation, Mapper or References; nil unless that is a function of the author's.
	Mapping *Mapping

	Key any   // by which reads name it
	Err error // why the declaration is invalid
	// References returns the secondaries that a primary of type Primary refers to. It is nil if
	// secondaries map to primaries.
	References eventsource.Mapper
	Primary    reflect.Type
}
