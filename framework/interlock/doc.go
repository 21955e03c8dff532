// Package interlock keeps an API object, the provider, as long as another one, the dependent, may
// be implemented on it. It lets no dependent be implemented on a provider that is missing, in
// deletion, or not protected.
//
// Kubernetes cannot keep references between objects intact. The next best thing is to forbid that a
// dependent is implemented on a provider that does not exist, as Kubernetes itself does for Pods
// and the volume claims that they use. Here that takes three declarations:
//
//	databases := interlock.Relation[*v1.App]{Name: "databases.example.com", Providers: databasesOf}
//	// where databases are served
//	guard := &interlock.Guard[*v1.Database, *v1.App]{Relation: databases}
//	// where apps are implemented
//	gate := &interlock.Gate[*v1.Database, *v1.App]{Relation: databases}
//
// The [Guard] is a separate controller: [Guard.Register]. The [Gate] belongs to the controller of
// the dependents, where its [Gate.Secondaries] and [Gate.Sources] are registered. Either
// [Gate.Node], which registers them itself, comes before the implementing nodes in the workflow, or
// Reconcile calls [Gate.Acquire] before it implements anything. Both sides may be in one operator
// or in different ones, and each works alone.
//
// # Why it is right
//
// Each store orders its changes. A provider's finalizer is removed only after (1) its deletion was
// requested, (2) a consistent list, sent after the guard has seen that, has shown no dependent that
// claims it. A dependent is granted a provider only after (3) its claim is stored, and (4) a
// consistent read, sent after the answer to that, has shown the provider with the finalizer and not
// in deletion.
//
// If the list is served before the claim is stored, then (1) comes before (2) before (3) before
// (4). So the read shows the deletion, and nothing is granted. If the claim is stored first, the
// list shows it, and the finalizer stays. In the code: (1) Guard.Cleanup, (2) mayGo, (3) and (4)
// holders.acquire.
//
// Two answers may come from a cache, because each only keeps things as they are. A dependent that
// the guard's cache has keeps the finalizer without a list, because the end of its claim is an
// event for the provider. And while another dependent of the same operator holds a provider, the
// next one is granted it without a read, because the finalizer cannot be removed before both claims
// are (see holders).
//
// # Limits
//
// It holds for stores that are read and written by quorum, as API servers do; aggregated API
// servers may not. Somebody who removes the finalizer of a provider, the claims of a dependent, or
// the finalizers of a dependent by hand overrides it.
//
// A claim means "may be using". It is made before a provider is looked at, and a dependent that was
// denied keeps its provider until it is deleted or refers to another. After a restart a dependent
// is granted no provider that is in deletion by then, even if it was granted before: its
// implementation stays, and is neither repaired nor removed until the dependent is deleted.
//
// # Concurrency
//
// A Relation is a value. Guard and Gate must be set up before they are registered, and must not be
// changed or copied afterwards.
//
// # Debugging
//
// Denials have a [Reason] and name the provider; [Grant.String] says what is missing. The dependent
// that keeps a provider is named in an event on the provider, and in the log. Claims are
// annotations and labels on the dependents: kubectl get apps -l databases.example.com/KEY, with the
// key that [Relation.Label] returns.
package interlock
