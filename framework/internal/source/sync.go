package source

import (
	"errors"
	"fmt"
	"time"
)

// OnTimeout is what happens after a sync timeout.
type OnTimeout int

const (
	byStartPolicy OnTimeout = iota
	fails
	waits
	Optional
)

// SyncPolicy is how long the start of a controller waits for a source.
type SyncPolicy struct {
	Timeout   time.Duration // 0: the operator's
	OnTimeout OnTimeout
}

// SyncError is an error of a source with a patience of its own.
type SyncError struct {
	error
	SyncPolicy
}

// WithSyncPolicy is an error of a source with a patience.
func WithSyncPolicy(err error, p SyncPolicy) error { return &SyncError{err, p} }

func (i *SyncError) Unwrap() error { return i.error }

// SyncPolicyOf is how long to wait for what an error is about.
func SyncPolicyOf(err error) SyncPolicy {
	var i *SyncError
	if errors.As(err, &i) {
		return i.SyncPolicy
	}
	return SyncPolicy{}
}

// Limit is its timeout, or a default.
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

// Check reports what is wrong with a source's patience.
func (p SyncPolicy) Check() error {
	switch {
	case p.Timeout < 0:
		return fmt.Errorf("SyncTimeout %v: must not be negative", p.Timeout)
	case p.OnTimeout < byStartPolicy || p.OnTimeout > Optional:
		return fmt.Errorf("OnSyncTimeout %d: must be SyncByStartPolicy, SyncFails, SyncWaits or SyncOptional", p.OnTimeout)
	}
	return nil
}
