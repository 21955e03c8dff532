package framework

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
)

// MigrateToApply hands the fields that former field managers own by create, update or patch over to the
// controller's own, which owns them by apply from then on. An operator that used to write an object whole and
// applies it now needs it once per object: without it, a field that it stops applying stays, as its former
// manager still owns it. With [Subresource]("status") it is about the fields of the status. former are names
// as metadata.managedFields shows them. It sends nothing if they own nothing.
//
// It returns the object as it is then. The object must exist.
func MigrateToApply[T Object](ctx context.Context, c Writes, object T, former []string, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.migrate(ctx, object, former, w.options(options)))
}

func (w *writer) migrate(ctx context.Context, object Object, former []string, options writeOptions) (Object, error) {
	r, key, err := w.target(ctx, object)
	if err != nil {
		return nil, err
	}
	if len(former) == 0 {
		return nil, fmt.Errorf("framework: migrate %s: no former field manager is named", r.Describe(key))
	}
	read, _, err := w.read(ctx, r, key) // caches do not keep managedFields
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	live := read.Object
	var scope []csaupgrade.Option
	if options.IsStatus() {
		scope = append(scope, csaupgrade.Subresource("status"))
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(former...), options.FieldManager, scope...)
	if err != nil {
		return nil, fmt.Errorf("framework: migrate %s: %w", r.Describe(key), err)
	}
	if patch == nil {
		return live, nil
	}
	options.Subresource = nil
	// What was confirmed about its content before says nothing of what an apply will take away now.
	defer w.cluster.memo.drop(r.GVK, key)
	return w.sendPatch(ctx, write{verb: "migrate", resource: r, key: key, options: options, base: live}, types.JSONPatchType, patch)
}
