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

// IsPlain tells whether a secondary is declared without functions, which cannot be compared.
func (d *Description) IsPlain() bool {
	return d.Relation == nil && d.Mapper == nil && d.Filter == nil && d.References == nil && len(d.Indexes) == 0
}

// Identical tells whether two sources are one.
func Identical(one, two eventsource.Source) bool {
	return reflect.TypeOf(one) == reflect.TypeOf(two) && reflect.TypeOf(one).Comparable() && one == two
}

// Text says what is watched, for errors.
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

// Opened is how secondaries are read.
type Opened struct {
	Store    *cache.Store
	Informer *eventsource.Informer
	// references are the secondaries of a primary, and referred the index of those; none unless primaries refer to them.
	References eventsource.Mapper
	Referred   string
	// fetch reads them whole.
	Fetch trc.Fetch
}

// Authors names the function of the author's by which secondaries and primaries find each other; empty if there is none.
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

// IsOurs tells the relations that this library brings from those of the author.
func IsOurs(r eventsource.Relation) bool {
	switch r := r.(type) {
	case nil, eventsource.Owners, eventsource.PrimaryRef, eventsource.Names:
		return true
	case eventsource.AnyOf:
		return !slices.ContainsFunc(r, func(one eventsource.Relation) bool { return !IsOurs(one) })
	}
	return false
}

// FiledUnder are the indexes of a secondary, for its source.
func (d *Description) FiledUnder() map[string]func(trc.Object) []string {
	all := make(map[string]func(trc.Object) []string, len(d.Indexes))
	for _, i := range d.Indexes {
		all[i.Name] = i.Guarded()
	}
	return all
}

// Incomplete says why an index, or with "" what maps to primaries, lacks objects; nil if it does not.
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
	Name         string
	Object       trc.Object
	GVK          schema.GroupVersionKind
	Namespaces   []string
	Labels       string
	Fields       string
	Retention    cache.Retention
	TransformErr error        // with Transform
	Config       *rest.Config // of another cluster, or nil
	Cluster      *write.Port
	Sync         SyncPolicy
	Relation     eventsource.Relation
	Mapper       eventsource.Mapper
	Filter       func(old, new trc.Object) bool
	Resource     *client.Client // once resolved

	Indexes []Index
	Mapping *Mapping // of by, mapper or refers, if that is the author's

	Key any   // what reads name it by
	Err error // why it cannot be
	// refers are the secondaries of a primary of type primary; nil if these map to it.
	References eventsource.Mapper
	Primary    reflect.Type
}
