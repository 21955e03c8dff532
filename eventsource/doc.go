// Package eventsource turns the outside world into (primary key, cause): what changed, and which
// primaries are due because of it.
//
//	informer := eventsource.NewInformer(store, eventsource.InformerOptions{
//		Name: "configmap", Kind: "ConfigMap",
//		Map:  eventsource.OwnedBy(schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}, false),
//	})
//	stop, err := informer.Start(sink)
//
// A [Relation] says which primaries a secondary belongs to: [Owners], [Marks], [Names], [AnyOf] them, or a [Mapper]. A [Filter] says
// which changes matter; filters are put together, and so is what looks at one object, [Where].
//
// What lies outside of the API server comes by [Polling] of all primaries at once, by [PollingEach] primary, by [Inbound]
// pushes, through a [Channel], and at times by [Ticks]. [Changes] are those of primaries that filters keep from making them due. Those that hold [Values] offer when they really change, and show at
// once what a reconciler says to have written.
//
// A source offers to a [Sink] and knows nothing of what stands behind it; the framework puts the
// scheduler there.
//
// # Concurrency
//
// Sources may be started, read and stopped from any goroutine. Filters and mappers are called one
// transition at a time, without any lock, and must be pure. What fetches must return when its context ends: stopping a source
// waits for it, for ten seconds at most.
//
// # What it does not do
//
// It does not list and watch (the trc store does), and does not decide when a primary runs (the
// scheduler does).
package eventsource
