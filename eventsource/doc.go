// Package eventsource turns changes of the outside world into pairs of a primary's key and a cause:
// what changed, and which primaries are due because of it.
//
//	informer := eventsource.NewInformer(store, eventsource.InformerOptions{
//		Name: "configmap", Kind: "ConfigMap",
//		Map:  eventsource.OwnedBy(webPageKind, false),
//	})
//	stop, err := informer.Start(sink)
//
// A [Relation] maps a secondary to its primaries: [Owners], [PrimaryRef], [Names], [AnyOf] several
// of them, or a [Mapper]. A [Filter] decides which changes matter. Filters can be combined, and so
// can functions of one object, [Where].
//
// There are several sources of changes outside the API server. [Polling] fetches the values of all
// primaries at once, [PollingEach] those of one primary at a time. [Inbound] receives pushes,
// [Channel] receives from a Go channel, and [Ticks] makes primaries due at given times. [Changes]
// makes primaries due for changes that their filters ignore. [Expectations] make a primary due when
// something did not happen in time. Sources with [Values] make a primary due only if a value really
// changes, and what a reconciler reports as written is readable at once.
//
// A source makes primaries due through a [Sink]. The framework implements it with the scheduler.
//
// # Concurrency
//
// Sources may be started, read and stopped from any goroutine. Filters and mappers must be pure.
// They are called for one transition at a time, without any lock. Fetch functions must return when
// their context ends: stopping a source waits for them, up to ten seconds.
//
// # What it does not do
//
// It does not list and watch (package trc does), and does not decide when a primary runs (package
// scheduler does).
package eventsource
