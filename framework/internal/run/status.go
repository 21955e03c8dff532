package run

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// Discovery tells at the start whether the status of a kind is a sub-resource. The definition of a
// custom kind may change that later. A write of the status fails then, finds out, and the next
// attempt is right.

// sendWithStatus writes the resource and the status in one request, for a kind without a status
// sub-resource.
func (e primaryWriter) sendWithStatus(ctx context.Context, patch map[string]any, status any, control Update) error {
	if !control.Resource {
		patch = map[string]any{}
	}
	patch["status"] = status
	options := e.run.Writes.Local.Defaults()
	options.Internal = true
	stored, err := e.run.Writes.Local.SendMergePatch(ctx, e.Resource.Writes, e.run.Key, e.run.Writes.Primary.Held(), patch, options)
	if err != nil {
		return err
	}
	content, err := object.Content(stored)
	if err != nil || object.IsNoop(content["status"], status) {
		return err
	}
	return e.statusError(ctx, errStatusDropped)
}

// errStatusDropped is the error of a write whose status the API server did not store.
var errStatusDropped = errors.New("the API server has dropped fields of the status, which the kind's schema may lack")

// statusError returns the error of a write of the status. It says so if the kind has gained or lost
// its status sub-resource.
func (e primaryWriter) statusError(ctx context.Context, err error) error {
	r := e.Resource.Writes
	wasApart := r.StatusApart.Load()
	if err == nil || wasApart && !apierrors.IsNotFound(err) {
		return err
	}
	_, parts, unknown := e.Operator.Cluster.Served(ctx, e.GVK)
	if isApart := parts.Has("status"); unknown == nil && isApart != wasApart {
		r.StatusApart.Store(isApart)
		err = fmt.Errorf("the status sub-resource of %s was added or removed meanwhile; the next attempt takes that into account: %w", e.GVK.Kind, err)
	} else if wasApart {
		return err
	}
	return fmt.Errorf("framework: UpdateControl of %s: %w", e.Resource.Describe(e.run.Key), err)
}
