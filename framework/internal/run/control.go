package run

import (
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// Update is a framework.UpdateControl without the Go type of the primary. The zero value asks for
// nothing.
type Update struct {
	Object       trc.Object    // the primary that the author returned
	Resource     bool          // write metadata and spec
	Status       bool          // write the status
	Reschedule   bool          // run again at once
	RescheduleIn time.Duration // run again after this duration; 0 for not
}

// asks reports whether the author asked for a write or a further run.
func (u Update) asks() bool {
	return u.Resource || u.Status || u.Reschedule || u.RescheduleIn > 0
}

// Deletion is a framework.DeleteControl. The zero value is invalid.
type Deletion struct {
	Kind         deleteKind    // whether the finalizer is removed
	Reschedule   bool          // run again at once
	RescheduleIn time.Duration // run again after this duration; 0 for not
}

type deleteKind int

const (
	saysNothing      deleteKind = iota
	RemovesFinalizer            // RemovesFinalizer removes the finalizer.
	KeepsFinalizer              // KeepsFinalizer keeps the finalizer.
)

func (d Deletion) validate() error {
	if d.Kind == saysNothing {
		return errors.New("framework: Cleanup returned the zero DeleteControl, which says nothing: return RemoveFinalizer() once everything is gone, or KeepFinalizer()")
	}
	return nil
}

// ErrorStatus is a framework.ErrorStatusControl without the Go type of the primary.
type ErrorStatus struct {
	Object       trc.Object    // the primary that the author returned
	Status       bool          // write the status
	NoRetry      bool          // the failure is handled: no retry
	Reschedule   bool          // run again at once; only with NoRetry
	RescheduleIn time.Duration // run again after this duration; only with NoRetry
}
