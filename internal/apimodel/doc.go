// Package apimodel is an API server in memory, for tests in virtual time: the real client-go and
// the whole framework run against it inside of a testing/synctest bubble, without sockets.
//
//	synctest.Test(t, func(t *testing.T) {
//		pages, err := apimodel.CustomResources("config/crd/bases")
//		model, err := apimodel.New(apimodel.Options{Kinds: pages})
//		model.Lag("webpages", time.Minute)  // every watch hears of every change a minute late
//		op, err := framework.NewOperator(model.Config(), ...)
//		...                                 // others write with any client on model.Config()
//		model.History()                     // the ground truth
//	})
//
// It answers discovery, GET, LIST, WATCH, POST, PUT, DELETE, merge patches, JSON patches and
// server-side apply as a kube-apiserver does. TestTheModelAnswersAsTheServer replays random
// operations on both and compares. [Model.Intercept] decides about faults of requests; [Model.Lag],
// [Model.Cut], [Model.Expire] and [Model.Stall] about those of watches.
//
// # Concurrency
//
// Everything may be used from many goroutines. A Model belongs to the bubble in which it was made,
// or to none. Goroutines exist only for watches and end with them: with the request's context, the
// Close of its body, a fault or the timeout. They block on channels and timers alone.
//
// client-go slows the errors of its watches down by a clock of the whole process: a package with
// more than one bubble runs its tests by [RunTests].
//
// # What it does not do
//
//   - No controllers: owner references, namespaces and foreground deletion have no effect of their
//     own.
//   - Built-in kinds have no defaults and no validation beyond metadata and the types of fields;
//     nothing is immutable but metadata. A Pod's nodeName may be written. Custom resources have
//     defaults, pruning and validation, but no CEL rules, no conversion and no scale.
//   - No strategic merge patch, no deletecollection, no sub-resource but status, no paging (limit
//     is ignored, as the API allows), no tables, no protobuf or CBOR in answers (protobuf requests
//     are understood).
//   - Every namespace exists, unless asked for.
//   - Lists and the first objects of a watch are always the newest; a version from the future is
//     refused for a list, and waited for by a watch.
//   - The generation of workloads counts changes of the spec alone, not of annotations.
//   - An empty list in the metadata that is applied to a custom resource is dropped at once. The
//     server keeps it until the next write, so that a write that changes nothing else gets a new
//     version there.
//   - No authentication, authorisation, admission, priority or fairness.
//
// Versions start after 1 and grow by one with every commit; UIDs and generated names are counted,
// so that a run in virtual time can be repeated.
package apimodel
