package client

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// ListOption restricts a list.
type ListOption interface{ applyToList(*listOptions) }

// WriteOption is for Create, Update and Patch.
type WriteOption interface{ applyToWrite(*metav1.PatchOptions) }

// DeleteOption is for Delete.
type DeleteOption interface{ applyToDelete(*metav1.DeleteOptions) }

type listOptions struct {
	namespace    string
	requirements []string
}

func (o *listOptions) selector() string { return strings.Join(o.requirements, ",") }

// InNamespace lists the objects of a namespace.
type InNamespace string

func (n InNamespace) applyToList(o *listOptions) { o.namespace = string(n) }

// MatchingLabels lists objects with all these labels.
type MatchingLabels map[string]string

func (l MatchingLabels) applyToList(o *listOptions) {
	o.requirements = append(o.requirements, labels.Set(l).String())
}

// HasLabels lists objects that have labels of all these names.
type HasLabels []string

func (l HasLabels) applyToList(o *listOptions) { o.requirements = append(o.requirements, l...) }

// FieldOwner is the field manager of a write.
type FieldOwner string

func (f FieldOwner) applyToWrite(o *metav1.PatchOptions) { o.FieldManager = string(f) }

// FieldValidation says what the server does about unknown fields: Strict, Warn or Ignore.
type FieldValidation string

func (f FieldValidation) applyToWrite(o *metav1.PatchOptions) { o.FieldValidation = string(f) }

type writeOption func(*metav1.PatchOptions)

func (w writeOption) applyToWrite(o *metav1.PatchOptions) { w(o) }

var (
	// DryRunAll makes the server judge a write and not carry it out.
	DryRunAll WriteOption = writeOption(func(o *metav1.PatchOptions) { o.DryRun = []string{metav1.DryRunAll} })
	// ForceOwnership makes an apply take fields that other field managers own.
	ForceOwnership WriteOption = writeOption(func(o *metav1.PatchOptions) { o.Force = new(true) })
)

// writeOptions returns options that serve every write: the server ignores those of another verb.
func writeOptions(options []WriteOption) *metav1.PatchOptions {
	sent := &metav1.PatchOptions{}
	for _, o := range options {
		o.applyToWrite(sent)
	}
	return sent
}

// Preconditions are what must be true of an object that is deleted.
type Preconditions metav1.Preconditions

func (p Preconditions) applyToDelete(o *metav1.DeleteOptions) {
	o.Preconditions = (*metav1.Preconditions)(&p)
}

// GracePeriodSeconds is how long the object may take to end.
type GracePeriodSeconds int64

func (g GracePeriodSeconds) applyToDelete(o *metav1.DeleteOptions) {
	o.GracePeriodSeconds = (*int64)(&g)
}

// PropagationPolicy says what becomes of the objects that the deleted one owns.
type PropagationPolicy metav1.DeletionPropagation

func (p PropagationPolicy) applyToDelete(o *metav1.DeleteOptions) {
	o.PropagationPolicy = (*metav1.DeletionPropagation)(&p)
}

// Patch is a patch as it is sent.
type Patch struct {
	kind types.PatchType
	data []byte
}

// RawPatch returns a patch of these bytes, which it does not copy.
func RawPatch(kind types.PatchType, data []byte) Patch { return Patch{kind, data} }
