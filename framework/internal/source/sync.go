package source

import (
	"errors"
	"fmt"
	"time"
)

// OnTimeout is what happens after a sync timeout. Its values are those of framework.SyncPolicy.
type OnTimeout int

const (
	byStartPolicy OnTimeout = iota
	fails
	waits
	Optional // the controller starts without the source
)

// SyncPolicy is how long the start of a controller waits for a source, and what happens then.
type SyncPolicy struct {
	Timeout   time.Duration // 0 for the operator's
	OnTimeout OnTimeout     // what happens after Timeout
}

// SyncError is the error of a source with its sync policy.
type SyncError struct {
	error
	SyncPolicy
}

// WithSyncPolicy adds the sync policy of a source to its error.
func WithSyncPolicy(err error, p SyncPolicy) error { return &SyncError{err, p} }

// Unwrap returns the error.
func (i *SyncError) Unwrap() error { return i.error }

// SyncPolicyOf returns the sync policy of the source that an error is about, the zero value if
// there is none.
func SyncPolicyOf(err error) SyncPolicy {
	var i *SyncError
	if errors.As(err, &i) {
		return i.SyncPolicy
	}
	return SyncPolicy{}
}

// Limit returns the timeout, or the default given.
func (p SyncPolicy) Limit(otherwise time.Duration) time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return otherwise
}

// IsBounded reports whether the start fails when the time is up: as the policy says, or by default.
func (p SyncPolicy) IsBounded(byDefault bool) bool {
	switch p.OnTimeout {
	case fails:
		return true
	case waits, Optional:
		return false
	}
	return byDefault
}

// Check returns an error for invalid fields.
func (p SyncPolicy) Check() error {
	switch {
	case p.Timeout < 0:
		return fmt.Errorf("SyncTimeout %v: must not be negative", p.Timeout)
	case p.OnTimeout < byStartPolicy || p.OnTimeout > Optional:
		return fmt.Errorf("OnSyncTimeout %d: must be SyncByStartPolicy, SyncFails, SyncWaits or SyncOptional", p.OnTimeout)
	}
	return nil
}
