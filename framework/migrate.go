package framework

import "context"

// MigrateToApply hands the fields that former field managers own by create, update or patch over to the
// controller's own, which owns them by apply from then on. An operator that used to write an object whole and
// applies it now needs it once per object: without it, a field that it stops applying stays, as its former
// manager still owns it. With [Subresource]("status") it is about the fields of the status. former are names
// as metadata.managedFields shows them. It sends nothing if they own nothing.
//
// It returns the object as it is then. The object must exist.
func MigrateToApply[T Object](ctx context.Context, c Writes, object T, former []string, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.Migrate(ctx, object, former, optionsOf(w, options)))
}
