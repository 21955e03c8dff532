// Package builder stands in for sigs.k8s.io/controller-runtime/pkg/builder: the controllers that it
// builds run in the operator of package controllerruntime.
package builder

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/controllerruntime/internal/bridge"
)

// Builder collects what a controller reconciles and watches.
type Builder struct {
	manager  manager.Manager
	spec     bridge.Spec
	every    []predicate.Predicate // of all kinds
	primary  watch
	sources  []watch
	problems []error
}

// watch is a kind that is watched, with its options.
type watch struct {
	bridge.Source
	metadataOnly bool
}

// ForOption is an option of [Builder.For].
type ForOption interface{ applyToFor(*watch) }

// OwnsOption is an option of [Builder.Owns].
type OwnsOption interface{ applyToOwns(*watch) }

// WatchesOption is an option of [Builder.Watches].
type WatchesOption interface{ applyToWatches(*watch) }

// Predicates filter the events of one kind.
type Predicates struct{ predicates []predicate.Predicate }

// WithPredicates returns an option that filters the events of one kind: all must let an event pass.
func WithPredicates(predicates ...predicate.Predicate) Predicates { return Predicates{predicates} }

func (p Predicates) applyToFor(w *watch)     { w.Predicates = append(w.Predicates, p.predicates...) }
func (p Predicates) applyToOwns(w *watch)    { p.applyToFor(w) }
func (p Predicates) applyToWatches(w *watch) { p.applyToFor(w) }

type metadataOnly struct{}

// OnlyMetadata lets a kind be cached with its metadata only.
var OnlyMetadata = metadataOnly{}

func (metadataOnly) applyToFor(w *watch)     { w.metadataOnly = true }
func (metadataOnly) applyToOwns(w *watch)    { w.metadataOnly = true }
func (metadataOnly) applyToWatches(w *watch) { w.metadataOnly = true }

type matchEveryOwner struct{}

// MatchEveryOwner lets any owner reference count, not only that of the controller.
var MatchEveryOwner = matchEveryOwner{}

func (matchEveryOwner) applyToOwns(w *watch) { w.EveryOwner = true }

// ControllerManagedBy returns a builder of a controller of a manager of package controllerruntime.
func ControllerManagedBy(m manager.Manager) *Builder { return &Builder{manager: m} }

// For sets the kind that is reconciled. It must be called once.
func (b *Builder) For(object client.Object, options ...ForOption) *Builder {
	if b.primary.Object != nil {
		b.problems = append(b.problems, fmt.Errorf("controllerruntime: For: is called twice, for %T and %T", b.primary.Object, object))
	}
	b.primary.Object = object
	for _, o := range options {
		o.applyToFor(&b.primary)
	}
	return b
}

// Owns watches a kind whose objects the reconciler creates with a controller reference.
func (b *Builder) Owns(object client.Object, options ...OwnsOption) *Builder {
	w := watch{Source: bridge.Source{Object: object}}
	for _, o := range options {
		o.applyToOwns(&w)
	}
	b.sources = append(b.sources, w)
	return b
}

// Watches watches a kind. The handler maps its objects to requests: it is asked by its Create, also
// for changes and deletions, and must map an object by its content alone.
func (b *Builder) Watches(object client.Object, h handler.EventHandler, options ...WatchesOption) *Builder {
	w := watch{Source: bridge.Source{Object: object, Handler: h}}
	if h == nil {
		b.problems = append(b.problems, fmt.Errorf("controllerruntime: Watches: %T: the handler must not be nil", object))
	}
	if funcs, is := h.(handler.Funcs); is && funcs.CreateFunc == nil {
		b.problems = append(b.problems, fmt.Errorf("controllerruntime: Watches: %T: CreateFunc of handler.Funcs must be set: it is asked for every change", object))
	}
	for _, o := range options {
		o.applyToWatches(&w)
	}
	b.sources = append(b.sources, w)
	return b
}

// WatchesMetadata is Watches with [OnlyMetadata].
func (b *Builder) WatchesMetadata(object client.Object, h handler.EventHandler, options ...WatchesOption) *Builder {
	return b.Watches(object, h, append(options, OnlyMetadata)...)
}

// WatchesRawSource is refused by Complete: declare an event source with the framework instead.
func (b *Builder) WatchesRawSource(source any) *Builder {
	b.problems = append(b.problems, fmt.Errorf("controllerruntime: WatchesRawSource: %T: is not supported: use an eventsource of the framework", source))
	return b
}

// WithEventFilter filters the events of all kinds.
func (b *Builder) WithEventFilter(p predicate.Predicate) *Builder {
	b.every = append(b.every, p)
	return b
}

// WithOptions sets options of the controller. Complete refuses those that cannot be honoured.
func (b *Builder) WithOptions(options controller.Options) *Builder {
	b.spec.Options = options
	return b
}

// Named sets the name of the controller. Default: the kind in lower case.
func (b *Builder) Named(name string) *Builder {
	b.spec.Name = name
	return b
}

// TriggeredByOwnWrites lets the writes of the reconciler trigger it, as those of others do and as
// controller-runtime does. It is for reconcilers that return after a write and rely on its event.
func (b *Builder) TriggeredByOwnWrites() *Builder {
	b.spec.OwnWritesTrigger = true
	return b
}

// Complete registers the controller. The error names all that is wrong or not supported.
func (b *Builder) Complete(r reconcile.Reconciler) error {
	m, is := b.manager.(*bridge.Manager)
	if !is {
		return fmt.Errorf("controllerruntime: the manager is a %T: it must be made by NewManager of package controllerruntime", b.manager)
	}
	if r == nil {
		return errors.New("controllerruntime: Complete: the reconciler must not be nil")
	}
	spec := b.spec
	if b.primary.Object != nil {
		source, err := b.source(m, b.primary)
		if err != nil {
			return err
		}
		spec.Primary, spec.Predicates = source.Object, source.Predicates
	}
	for _, w := range b.sources {
		source, err := b.source(m, w)
		if err != nil {
			return err
		}
		spec.Sources = append(spec.Sources, source)
	}
	if err := errors.Join(b.problems...); err != nil {
		return err
	}
	return bridge.Register(m, spec, r)
}

// source returns what is watched in the form that is asked for.
func (b *Builder) source(m manager.Manager, w watch) (bridge.Source, error) {
	w.Predicates = append(append([]predicate.Predicate{}, b.every...), w.Predicates...)
	kind, err := apiutil.GVKForObject(w.Object, m.GetScheme())
	if err != nil {
		return w.Source, fmt.Errorf("controllerruntime: %T: %w", w.Object, err)
	}
	switch w.Object.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
	default:
		if w.metadataOnly {
			w.Object = &metav1.PartialObjectMetadata{}
			w.Object.GetObjectKind().SetGroupVersionKind(kind)
		}
	}
	return w.Source, nil
}
