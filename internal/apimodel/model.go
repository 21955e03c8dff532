package apimodel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Options configure a [Model].
type Options struct {
	// Kinds are served besides those of Kubernetes that every model serves; see [CustomResources].
	// Models that are made of the same kinds share what is costly to make of them.
	Kinds []Kind
	// Rules compiles the CEL rules of a schema, which it gets as the JSON of openAPIV3Schema. New
	// calls it once for every kind with [Kind.HasRules]; what it costs is worth remembering by the
	// schema. The returned check gets the object and its previous version, nil for a new one; its
	// errors refuse the request with 422. Nil: rules are ignored.
	Rules func(schema []byte) (check RuleCheck, err error)
	// Namespaces makes objects need a namespace that exists and that is not deleted, and namespaces
	// stay until their content is gone, which is what the actors of internal/actors see to. The
	// namespaces default, kube-system and kube-public exist from the start. Without it any namespace
	// may be named.
	Namespaces bool
	// Defaults gives the built-in kinds the defaults that Kubernetes gives them, a Service its
	// addresses, and Jobs, whose deletion orphans their Pods unless it says otherwise, that rule.
	// Without it they have what requests say.
	Defaults bool
	// FirstVersion is the version of the model without objects; the first commit gets the next one.
	// Default: 1, as of an empty etcd. Watches from an earlier version are refused with 410.
	FirstVersion int64
}

// RuleCheck returns how an object breaks the rules of its schema. It must be safe for concurrent
// use, and must not change or keep its arguments.
type RuleCheck = func(o, old map[string]any) field.ErrorList

// Model is an API server in memory. Make it with [New], inside of the bubble that uses it.
type Model struct{ store }

// store carries out what requests ask for.
type store struct {
	served     served
	namespaces *resource // nil unless objects need one

	mu        sync.Mutex     // guards everything below; a leaf
	history   commits        // begins with the first version, which changed nothing
	made      map[string]int // how many objects there were, by resource and name
	names     int
	addresses int
	requests  int
	intercept func(Request) Fault
	stale     time.Duration // how old the state may be that is shown to those who accept any
	changed   chan struct{} // closed and replaced when watches should look again
}

// resource is a kind as it is served by one model.
type resource struct {
	*endpoints
	check    RuleCheck // nil without rules
	defaults []func(content map[string]any)
	allocate func(old, o *unstructured.Unstructured) // under the model's mu; nil for none
	orphans  bool                                    // its dependents, if a deletion does not say

	// Below is guarded by the model's mu.
	objects map[key]*unstructured.Unstructured // never mutated, only replaced
	lag     time.Duration
	stalled bool
	cuts    int   // counts the times its watches were ended
	oldest  int64 // watches from before are refused
}

type key struct{ namespace, name string }

// Commit is one change of one object.
type Commit struct {
	// Version is the resourceVersion it got; versions are one sequence for all kinds.
	Version int64
	// At is when.
	At time.Time
	// Event is Added, Modified or Deleted.
	Event watch.EventType
	// Resource is the plural, Subresource that of the request, as in [Request].
	Resource, Subresource string
	// Verb is the request's: create, update, patch, apply, delete or deletecollection.
	Verb string
	// Manager is the field manager, or the start of the user agent where the request named none.
	Manager, UserAgent string
	// Object is the object after it; for a deletion as it last was, with the version of the deletion.
	Object *unstructured.Unstructured
	// Previous is the object before it, nil for an addition.
	Previous *unstructured.Unstructured
}

type commit struct {
	Commit
	resource *resource // nil if only the version went on
}

// commits are never empty, and their versions have no gaps.
type commits []commit

func (all commits) first() int64 { return all[0].Version }

// versionAt returns the version of the nth commit, counted from 1.
func (all commits) versionAt(n int) int64 { return all.first() + int64(n) - 1 }

// after returns the index of the commit after the version. It exceeds the length for a version of
// the future.
func (all commits) after(version int64) int { return int(max(version-all.first()+1, 0)) }

// New returns an API server without objects. It returns an error that names every kind it cannot
// serve, or a negative version.
func New(options Options) (*Model, error) {
	if options.FirstVersion < 0 {
		return nil, fmt.Errorf("apimodel: FirstVersion %d: must not be negative", options.FirstVersion)
	}
	first := cmp.Or(options.FirstVersion, 1) // version 0 is no version
	m := &Model{store{
		served: served{}, made: map[string]int{},
		history: commits{{Commit: Commit{Version: first, At: time.Now()}}},
		changed: make(chan struct{}),
	}}
	builtIn, err := builtInEndpoints()
	if err != nil {
		return nil, err
	}
	for _, e := range builtIn {
		m.served[e.GroupVersion().WithResource(e.Plural)] = newResource(e)
	}
	var errs []error
	for _, kind := range options.Kinds {
		r, err := customResource(kind, options)
		if err != nil {
			errs = append(errs, fmt.Errorf("apimodel: kind %s: %w", kind.GroupVersionKind, err))
			continue
		}
		m.served[kind.GroupVersion().WithResource(kind.Plural)] = r
	}
	if options.Defaults {
		m.useDefaults()
	}
	if options.Namespaces {
		errs = append(errs, m.requireNamespaces())
	}
	return m, errors.Join(errs...)
}

func newResource(e *endpoints) *resource {
	return &resource{endpoints: e, objects: map[key]*unstructured.Unstructured{}}
}

func customResource(kind Kind, options Options) (*resource, error) {
	e, err := kind.endpoints()
	if err != nil {
		return nil, err
	}
	r := newResource(e)
	if !kind.HasRules || options.Rules == nil {
		return r, nil
	}
	schema, err := kind.schemaJSON()
	if err != nil {
		return nil, err
	}
	r.check, err = options.Rules(schema)
	return r, err
}

// Plurals returns the names of all resources, in no order.
func (m *Model) Plurals() []string {
	var all []string
	for _, r := range m.served {
		if !slices.Contains(all, r.Plural) {
			all = append(all, r.Plural)
		}
	}
	return all
}

// Config returns a client configuration for the model, without client-side rate limits.
func (m *Model) Config() *rest.Config {
	return &rest.Config{Host: "http://apimodel", Transport: m, QPS: -1}
}

// Kinds returns the kinds that are served, in no order.
func (m *Model) Kinds() []Kind {
	kinds := make([]Kind, 0, len(m.served))
	for _, r := range m.served {
		kinds = append(kinds, r.endpoints.Kind)
	}
	return kinds
}

// History returns all commits in order. The objects are shared: do not mutate them.
func (m *Model) History() []Commit { return m.Since(0) }

// Since is [Model.History] from after a version on: 0 for all.
func (m *Model) Since(version int64) []Commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	var commits []Commit
	for _, c := range m.history[min(m.history.after(version), len(m.history)):] {
		if c.resource != nil {
			commits = append(commits, c.Commit)
		}
	}
	return commits
}

// Objects returns what exists of the resource, named by its plural, in the order of namespaces and
// names. The objects are shared: do not mutate them.
func (m *Model) Objects(plural string) []*unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*unstructured.Unstructured
	for _, r := range m.served {
		if r.Plural == plural {
			all = append(all, sorted(r.objects, "")...)
		}
	}
	return all
}

// sorted returns the objects of a namespace, "" for all, in the order of namespaces and names.
func sorted(objects map[key]*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for k, o := range objects {
		if namespace == "" || namespace == k.namespace {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// Changed returns a channel that is closed at the next commit, and at what else watches look for.
// Take it before reading the state, so that no commit is missed:
//
//	for version := int64(0); ctx.Err() == nil; {
//		changed := model.Changed()
//		for _, c := range model.Since(version) {
//			version = c.Version
//			...
//		}
//		select { case <-changed: case <-ctx.Done(): }
//	}
func (m *Model) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *store) versionLocked() int64 { return m.history.versionAt(len(m.history)) }

func (m *store) wakeLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}
