package write

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/evenkeel/evenkeel/trc"
)

// Migrate moves the fields of an object from former field managers to the one of options, so that
// an apply by it can remove them. It sends nothing if the former ones own none.
func (w *Writer) Migrate(ctx context.Context, object trc.Object, former []string, options Options) (trc.Object, error) {
	r, key, err := w.Target(ctx, object)
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
	// A memory says nothing about the fields that an apply would remove now.
	defer w.Port.Memo.drop(r.GVK, key)
	return w.sendPatch(ctx, Request{verb: "migrate", resource: r, key: key, options: options, base: live}, types.JSONPatchType, patch)
}
