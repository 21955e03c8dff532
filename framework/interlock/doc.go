// Package interlock keeps an API object, the provider, for as long as another, the dependent, may be implemented on it, and
// lets no dependent be implemented on a provider that is missing, in deletion, or not kept.
//
// Kubernetes cannot keep references between objects intact. The next best thing is to forbid that a dependent is implemented on a
// provider that does not exist, as Kubernetes itself does for Pods and the volume claims that they use. Here that takes three declarations:
//
//	databases := interlock.Relation[*v1.App]{Name: "databases.example.com", Providers: databasesOf}
//	guard := &interlock.Guard[*v1.Database, *v1.App]{Relation: databases} // where databases are served
//	gate := &interlock.Gate[*v1.Database, *v1.App]{Relation: databases}   // where apps are implemented
//
// The [Guard] is a controller of its own: [Guard.Register]. The [Gate] belongs to the controller of the dependents: its
// [Gate.Secondaries] and [Gate.Sources] are registered there, and either [Gate.Node], which brings them along, stands before the nodes that implement, in the workflow, or
// Reconcile calls [Gate.Acquire] before it implements anything. Both sides may be in one operator or in different ones, and each works alone.
//
// # Why it is right
//
// Each store orders its changes. A provider's finalizer is taken off only after (1) its deletion was requested, (2) a consistent list, sent
// after the guard has seen that, has shown no dependent that claims it. A dependent is granted a provider only after (3) its claim is
// stored, and (4) a consistent read, sent after the answer to that, has shown the provider with the finalizer and not in deletion. If the list is
// served before the claim is stored, then (1) comes before (2) before (3) before (4), so the read shows the deletion, and nothing is granted. If
// the claim comes first, the list shows it, and the finalizer stays. In the code: (1) Guard.Cleanup, (2) mayGo, (3) and (4) holders.acquire.
//
// Two answers may come from a cache, as each only ever keeps things as they are: a dependent that the guard's cache shows keeps the
// finalizer without a list, since its leaving will bring the provider up again; and while another dependent of the same operator holds a
// provider, the next is granted it without a read, as the finalizer cannot go before both claims have (see holders).
//
// # Limits
//
// It holds for stores that are read and written by quorum, as API servers do; aggregated API servers may not. Who takes the finalizer off a
// provider, the claims off a dependent, or the finalizers off a dependent by hand has decided otherwise. A claim says "may be using":
// it is made before a provider is looked at, and a dependent that was denied keeps its provider until it is deleted or refers to another.
// After a restart a dependent is granted nothing that has come into deletion meanwhile, even if it was before: what is implemented
// stays, and is neither repaired nor removed until the dependent is deleted.
//
// # Concurrency
//
// A Relation is a value. Guard and Gate are set up before they are registered, and neither changed nor copied after that.
//
// # Debugging
//
// Denials carry a [Reason] and name the provider; [Grant.String] says what is missing. Who keeps a provider is an event on it, and in the log. Claims are annotations and labels
// on the dependents: kubectl get apps -l databases.example.com/KEY, with the key that [Relation.Label] returns.
package interlock
