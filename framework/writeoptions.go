package framework

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WriteMode is how desired state is sent.
type WriteMode int

const (
	// ByDefault is ByPatch for primaries and ByApply for secondaries.
	ByDefault WriteMode = iota
	// ByPatch sends what differs from what was read, as a JSON merge patch; what does not exist is
	// created.
	ByPatch
	// ByApply sends the fields that the controller wants to own, as a server-side apply.
	ByApply
)

// String returns "default", "patch" or "apply".
func (m WriteMode) String() string {
	switch m {
	case ByDefault:
		return "default"
	case ByPatch:
		return "patch"
	case ByApply:
		return "apply"
	}
	return fmt.Sprintf("WriteMode(%d)", int(m))
}

// WriteOption changes one write.
type WriteOption func(*writeOptions)

type writeOptions struct {
	fieldManager  string
	owned         bool
	leaveToOthers bool
	mode          WriteMode
	propagation   *metav1.DeletionPropagation
	gracePeriod   *int64
}

// FieldManager replaces the controller's field manager for one write.
func FieldManager(name string) WriteOption { return func(o *writeOptions) { o.fieldManager = name } }

// OwnedByPrimary adds a controller reference to the primary, so that the secondary is mapped to it
// and deleted with it. The secondary must be in the primary's namespace, or the primary
// cluster-scoped: Kubernetes forbids other owners.
func OwnedByPrimary() WriteOption { return func(o *writeOptions) { o.owned = true } }

// LeaveToOthers makes an apply fail with a conflict where another field manager owns a field with
// another value. By default the field is taken over, as Kubernetes advises controllers.
func LeaveToOthers() WriteOption { return func(o *writeOptions) { o.leaveToOthers = true } }

// By replaces the controller's [ControllerOptions.SecondaryWrites] for one [Apply].
func By(mode WriteMode) WriteOption { return func(o *writeOptions) { o.mode = mode } }

// Propagation says what a [Delete] does with what the object owns. Default: the kind's.
func Propagation(policy metav1.DeletionPropagation) WriteOption {
	return func(o *writeOptions) { o.propagation = &policy }
}

// GracePeriodSeconds is how long a deleted Pod may take to end. Default: the object's.
func GracePeriodSeconds(seconds int64) WriteOption {
	return func(o *writeOptions) { o.gracePeriod = &seconds }
}

func (w *writer) options(options []WriteOption) writeOptions {
	o := writeOptions{fieldManager: w.fieldManager, mode: w.mode}
	for _, option := range options {
		option(&o)
	}
	return o
}
