package object

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// IsOnly tells whether err is what is asked for and nothing else: beside another failure, joined with it, it counts as that
// failure.
func IsOnly(err error, asked func(error) bool) bool {
	if asked(err) {
		return true
	}
	if Is[*workflow.PanicError](err) { // whatever was passed to panic
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

// Is tells whether an error is an E itself, wraps or not.
func Is[E error](err error) bool {
	_, is := err.(E)
	return is
}

// IsTooLarge knows the API server's refusal of a request, and etcd's of what it would store.
func IsTooLarge(refusal error) bool {
	if apierrors.IsRequestEntityTooLargeError(refusal) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(refusal, &status) && status.Status().Code >= 500 &&
		(strings.Contains(refusal.Error(), "request is too large") || strings.Contains(refusal.Error(), "trying to send message larger than max"))
}
