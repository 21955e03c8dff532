package object

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// IsOnly reports whether asked is true for err and for everything else that is joined with it. An
// error that is joined with another failure counts as that failure.
func IsOnly(err error, asked func(error) bool) bool {
	if asked(err) {
		return true
	}
	if Is[*workflow.PanicError](err) { // whatever value was passed to panic
		return false
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return IsOnly(err.Unwrap(), asked)
	case interface{ Unwrap() []error }:
		all := err.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !IsOnly(err, asked) })
	}
	return false
}

// Is reports whether an error itself is an E, not whether it wraps one.
func Is[E error](err error) bool {
	_, is := err.(E)
	return is
}

// IsTooLarge reports whether the API server refused a request because of its size, or etcd refused
// to store it.
func IsTooLarge(refusal error) bool {
	if apierrors.IsRequestEntityTooLargeError(refusal) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(refusal, &status) && status.Status().Code >= 500 &&
		(strings.Contains(refusal.Error(), "request is too large") || strings.Contains(refusal.Error(), "trying to send message larger than max"))
}
