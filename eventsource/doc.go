// Package eventsource turns the outside world into (primary key, cause): what changed, and which
// primaries are due because of it.
//
//	informer := eventsource.NewInformer(store, eventsource.InformerOptions{
//		Name: "configmap", Kind: "ConfigMap",
//		Map:  eventsource.OwnedBy(schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}, false),
//	})
//	stop, err := informer.Start(sink)
//
// A source offers to a [Sink] and knows nothing of what stands behind it; the framework puts the
// scheduler there.
//
// # Concurrency
//
// Sources may be started, read and stopped from any goroutine. Filters and mappers are called one
// transition at a time, without any lock, and must be pure.
//
// # What it does not do
//
// It does not list and watch (the trc store does), and does not decide when a primary runs (the
// scheduler does).
package eventsource
