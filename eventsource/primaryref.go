package eventsource

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/trc"
)

// These are the keys of the zero value of [PrimaryRef].
const (
	PrimaryNameKey      = "evenkeel.dev/primary-name"
	PrimaryNamespaceKey = "evenkeel.dev/primary-namespace"
	PrimaryKindKey      = "evenkeel.dev/primary-kind"
)

// PrimaryRef are annotations, or labels, by which a secondary names its primary where owner
// references do not work: in another namespace or another cluster. [PrimaryRef.Put] sets them, so
// that writing and mapping cannot disagree. The zero value uses three annotations with the keys
// above.
//
// Unlike owner references, marks have no effect on the garbage collector and are not protected:
// whoever may write the secondary can point it at another primary.
type PrimaryRef struct {
	// Name is the key of the primary's name. Default: [PrimaryNameKey]; then Namespace and Kind also
	// default to their keys.
	Name string
	// Namespace is the key of the primary's namespace. Without it, or if a secondary lacks it, that is
	// the secondary's own namespace. It has no effect if primaries are cluster-scoped.
	Namespace string
	// Kind is the key of the primary's kind and group, as in WebPage.samples.evenkeel.dev. A secondary
	// that names another kind is not mapped. Without it, controllers of different kinds need different
	// keys.
	Kind string
	// Labels stores the marks as labels, which selectors can match. Label values have at most 63
	// characters, and names may be longer.
	Labels bool
}

var _ Relation = PrimaryRef{}

func (m PrimaryRef) resolved() PrimaryRef {
	if m.Name != "" {
		return m
	}
	m.Name = PrimaryNameKey
	if m.Namespace == "" {
		m.Namespace = PrimaryNamespaceKey
	}
	if m.Kind == "" {
		m.Kind = PrimaryKindKey
	}
	return m
}

// MapperFor returns the mapper for a kind of primaries, or an error that names the invalid keys.
func (m PrimaryRef) MapperFor(primary schema.GroupKind, clusterScoped bool) (Mapper, error) {
	m = m.resolved()
	if err := m.check(); err != nil {
		return nil, err
	}
	return func(secondary trc.Object) []trc.Key {
		marks := m.on(secondary)
		name := marks[m.Name]
		if name == "" || m.Kind != "" && marks[m.Kind] != primary.String() {
			return nil
		}
		namespace := secondary.GetNamespace()
		if other := marks[m.Namespace]; m.Namespace != "" && other != "" {
			namespace = other
		}
		return keyIn(namespace, name, clusterScoped)
	}, nil
}

func (m PrimaryRef) check() error {
	var errs []error
	keys := map[string]string{}
	for _, key := range []struct{ field, value string }{{"Name", m.Name}, {"Namespace", m.Namespace}, {"Kind", m.Kind}} {
		if key.value == "" {
			continue
		}
		if problems := validation.IsQualifiedName(key.value); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("eventsource: PrimaryRef: %s %q: %s", key.field, key.value, strings.Join(problems, "; ")))
		}
		if other, taken := keys[key.value]; taken {
			errs = append(errs, fmt.Errorf("eventsource: PrimaryRef: %s %q: is %s already", key.field, key.value, other))
		}
		keys[key.value] = key.field
	}
	return errors.Join(errs...)
}

// on returns the annotations or labels of an object, shared.
func (m PrimaryRef) on(o trc.Object) map[string]string {
	if m.Labels {
		return o.GetLabels()
	}
	return o.GetAnnotations()
}

// Put marks a secondary as belonging to the primary, which is cluster-scoped if its key has no
// namespace. It replaces the secondary's annotations or labels and does not change the map that
// they were in. If the marks could not be mapped back, it returns an error and changes nothing.
func (m PrimaryRef) Put(secondary trc.Object, primary schema.GroupKind, key trc.Key) error {
	m = m.resolved()
	err := m.check()
	if m.Namespace == "" && key.Namespace != "" && key.Namespace != secondary.GetNamespace() {
		err = errors.Join(err, fmt.Errorf("eventsource: mark %s as of %s: without PrimaryRef.Namespace the primary must be in its namespace",
			trc.KeyOf(secondary), key))
	}
	marks := maps.Clone(m.on(secondary))
	if marks == nil {
		marks = map[string]string{}
	}
	put := func(field, label, value string) {
		if label == "" || value == "" {
			return
		}
		if problems := validation.IsValidLabelValue(value); m.Labels && len(problems) > 0 {
			err = errors.Join(err, fmt.Errorf("eventsource: mark %s as of %s: %s %q as a label: %s",
				trc.KeyOf(secondary), key, field, value, strings.Join(problems, "; ")))
		}
		marks[label] = value
	}
	put("Name", m.Name, key.Name)
	put("Namespace", m.Namespace, key.Namespace)
	put("Kind", m.Kind, primary.String())
	if err != nil {
		return err
	}
	if m.Labels {
		secondary.SetLabels(marks)
	} else {
		secondary.SetAnnotations(marks)
	}
	return nil
}
