// Package client is the API client of the tests. It reads and writes typed and unstructured objects
// of any kind that the API server serves, and keeps nothing but the names of resources.
//
//	admin, err := client.New(config, scheme)
//	err = admin.Create(ctx, page, client.FieldOwner("somebody"))
//	err = admin.Get(ctx, client.ObjectKeyFromObject(page), page)
//	err = admin.List(ctx, &pods, client.InNamespace("default"), client.HasLabels{"app"})
//	err = admin.Status().Patch(ctx, page, client.RawPatch(types.MergePatchType, patch))
//	err = client.IgnoreNotFound(admin.Delete(ctx, page, client.GracePeriodSeconds(0)))
//
// It stands beside the framework: it shares no code with what the tests judge. Its identifiers are
// those of controller-runtime's client, as far as the tests need them.
//
// # Objects
//
// An answer replaces the whole object. The kind of a typed object stays as the caller set it, which
// is usually empty. The kind of an unstructured object must be set; a list's ends in "List".
//
// # Concurrency
//
// A Client may be used from several goroutines.
//
// # What it does not do
//
// It does not cache, watch, limit its rate, or follow a kind that changes its resource or scope.
//
// # Debugging
//
// All errors are those of client-go, so the functions of apimachinery's package errors judge them.
// klog at level 8 logs every request.
package client
