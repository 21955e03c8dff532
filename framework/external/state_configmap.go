package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
)

// StateKey is the label and the finalizer of the ConfigMaps of [InConfigMap].
const StateKey = "evenkeel.dev/external-state"

const recordsKey = "records.json"

// InConfigMap stores records in one ConfigMap for each primary and dependent. Its name is derived
// from the primary's name and UID and the name of the dependent. It exists as long as there are
// records. One InConfigMap may be the State of several dependents of a controller; several of one
// controller need different SourceNames. It must not be copied.
//
// The ConfigMap has its own finalizer and no owner: neither the end of a namespace nor the garbage
// collector nor a user who deletes it removes it before the external value is gone. It belongs to
// its primary by [eventsource.PrimaryRef].
type InConfigMap[P framework.Object] struct {
	// Namespace is the namespace of the ConfigMaps. Default: the primary's. Required for
	// cluster-scoped primaries.
	Namespace string
	// Marks are the marks that name the primary. Default: the zero value.
	Marks eventsource.PrimaryRef
	// SourceName is the name of the secondary from which the ConfigMaps are read. Default:
	// "external-state".
	SourceName string

	once       sync.Once // guards the initialization of configMaps
	configMaps framework.Secondary[*corev1.ConfigMap]
}

var _ State[framework.Object] = (*InConfigMap[framework.Object])(nil)

func (s *InConfigMap[P]) secondary() *framework.Secondary[*corev1.ConfigMap] {
	s.once.Do(func() {
		s.configMaps.Name, s.configMaps.LabelSelector, s.configMaps.By = s.SourceName, StateKey, s.Marks
		if s.SourceName == "" {
			s.configMaps.Name = "external-state"
		}
		if s.Namespace != "" {
			s.configMaps.Namespaces = []string{s.Namespace}
		}
	})
	return &s.configMaps
}

// Secondaries implements [State].
func (s *InConfigMap[P]) Secondaries() []framework.SecondarySource {
	return framework.Secondaries(s.secondary())
}

// Load implements [State].
func (s *InConfigMap[P]) Load(ctx context.Context, c *framework.Context[P], name string, fresh bool) (Snapshot, error) {
	key, err := s.keyOf(c.Primary(), name)
	if err != nil {
		return Snapshot{}, err
	}
	var found *corev1.ConfigMap
	if fresh {
		found, err = framework.Live[*corev1.ConfigMap](ctx, c, key.Namespace, key.Name)
		if apierrors.IsNotFound(err) {
			found, err = nil, nil
		}
	} else {
		found, err = s.secondary().GetNamed(c, key.Namespace, key.Name)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("external: read the state in ConfigMap %s/%s: %w", key.Namespace, key.Name, err)
	}
	if found == nil {
		return Snapshot{Where: where(key)}, nil
	}
	return snapshotOf(found)
}

func where(o metav1.ObjectMeta) string {
	return fmt.Sprintf("%s of ConfigMap %s/%s", recordsKey, o.Namespace, o.Name)
}

// keyOf returns the name of the ConfigMap.
func (s *InConfigMap[P]) keyOf(primary P, name string) (metav1.ObjectMeta, error) {
	key := metav1.ObjectMeta{Namespace: s.Namespace, Name: primary.GetName()}
	if key.Namespace == "" {
		key.Namespace = primary.GetNamespace()
	}
	if key.Namespace == "" {
		return key, errors.New("external: InConfigMap: Namespace is empty, and the primary is cluster-scoped")
	}
	const room = 200 // of 253 characters
	key.Name = strings.TrimRight(key.Name[:min(len(key.Name), room)], "-.") + "-" + digest(string(primary.GetUID()), name)
	return key, nil
}

func snapshotOf(o *corev1.ConfigMap) (Snapshot, error) {
	s := Snapshot{Base: o, Where: where(o.ObjectMeta)}
	if content := o.Data[recordsKey]; content != "" {
		if err := json.Unmarshal([]byte(content), &s.Records); err != nil {
			return s, fmt.Errorf("external: read %s: %w", s.Where, err)
		}
	}
	return s, nil
}

// Save implements [State].
func (s *InConfigMap[P]) Save(ctx context.Context, c *framework.Context[P], name string, from Snapshot, records Records) (Snapshot, error) {
	there, _ := from.Base.(*corev1.ConfigMap)
	switch {
	case len(records) == 0 && there == nil:
		return from, nil
	case len(records) == 0:
		return s.remove(ctx, c, from, there)
	}
	content, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return from, fmt.Errorf("external: write %s: %w", from.Where, err)
	}
	var stored *corev1.ConfigMap
	if there == nil {
		key, err := s.keyOf(c.Primary(), name)
		if err != nil {
			return from, err
		}
		key.Labels, key.Finalizers = map[string]string{StateKey: ""}, []string{StateKey}
		stored, err = framework.Create(ctx, c, &corev1.ConfigMap{ObjectMeta: key, Data: map[string]string{recordsKey: string(content)}}, framework.WithPrimaryRef(s.Marks))
		if err != nil {
			return from, err
		}
	} else {
		next := there.DeepCopy()
		if next.Data == nil {
			next.Data = map[string]string{}
		}
		next.Data[recordsKey] = string(content)
		if next.DeletionTimestamp == nil && !slices.Contains(next.Finalizers, StateKey) {
			// A crash has left the ConfigMap without the finalizer.
			next.Finalizers = append(next.Finalizers, StateKey)
		}
		if stored, err = framework.Update(ctx, c, next); err != nil {
			return from, err
		}
	}
	return snapshotOf(stored)
}

// remove removes the records and the finalizer in one request, so that a crash leaves only a
// ConfigMap without records.
func (s *InConfigMap[P]) remove(ctx context.Context, c *framework.Context[P], from Snapshot, there *corev1.ConfigMap) (Snapshot, error) {
	if len(from.Records) > 0 || slices.Contains(there.Finalizers, StateKey) {
		next := there.DeepCopy()
		delete(next.Data, recordsKey)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == StateKey })
		stored, err := framework.Update(ctx, c, next)
		if err != nil {
			return from, err
		}
		there = stored
	}
	// Delete it only if unchanged: another process may have written records meanwhile.
	if err := framework.Delete(ctx, c, there, framework.IfUnchanged()); err != nil {
		return from, err
	}
	return Snapshot{Where: from.Where}, nil
}
