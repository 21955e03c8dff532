package run

import (
	"errors"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// Update is an [framework.UpdateControl] without the type of the primary.
type Update struct {
	Object       trc.Object
	Resource     bool
	Status       bool
	Reschedule   bool
	RescheduleIn time.Duration
}

// asks reports whether it asks for anything.
func (u Update) asks() bool {
	return u.Resource || u.Status || u.Reschedule || u.RescheduleIn > 0
}

// Deletion is a [framework.DeleteControl].
type Deletion struct {
	Kind         deleteKind
	Reschedule   bool
	RescheduleIn time.Duration
}

type deleteKind int

const (
	saysNothing deleteKind = iota
	RemovesFinalizer
	KeepsFinalizer
)

func (d Deletion) validate() error {
	if d.Kind == saysNothing {
		return errors.New("framework: Cleanup returned the zero DeleteControl, which says nothing: return RemoveFinalizer() once everything is gone, or KeepFinalizer()")
	}
	return nil
}

// ErrorStatus is an [framework.ErrorStatusControl] without the type of the primary.
type ErrorStatus struct {
	Object       trc.Object
	Status       bool
	NoRetry      bool
	Reschedule   bool
	RescheduleIn time.Duration
}
