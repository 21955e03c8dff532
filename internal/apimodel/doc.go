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
// It answers discovery, GET, LIST, WATCH, POST, PUT, DELETE, DELETE of a collection, merge patches,
// strategic merge patches, JSON patches and server-side apply, and the sub-resources status, scale,
// eviction, binding and finalize, as a kube-apiserver does. [Options.Defaults] and
// [Options.Namespaces] make it stricter. Package actors does what controllers and kubelets do.
//
// TestTheModelAnswersAsTheServer replays random operations on the model and on a server and
// compares; TestScaleIsAsOnTheServer and its neighbours, TestNamespacesAreAsOnTheServer and
// TestDefaultsAreThoseOfTheServer do so with what their names say.
//
// [Model.Intercept] decides about faults of requests; [Model.Lag], [Model.Cut], [Model.Expire] and
// [Model.Stall] about those of watches; [Model.Stale] shows the past to those who accept it.
// [Model.Changed] and [Model.Since] follow the commits.
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
// Of requests:
//
//   - No paging (limit is ignored, as the API allows), no tables, no protobuf or CBOR in answers
//     (protobuf requests are understood), no aggregated discovery, no authentication, no
//     authorisation, no priority and fairness.
//   - No sub-resources but those above; of Pods no log, exec, resize or ephemeralcontainers.
//   - A version from the future is refused for a list, and waited for by a watch. A version of the
//     past other than "0" shows the newest state.
//   - Items of lists have apiVersion and kind, which the server leaves out for built-in kinds.
//
// Of objects:
//
//   - Built-in kinds have no validation beyond metadata and the types of fields, and nothing is
//     immutable but metadata: the selector of a Deployment, the template of a Job, the nodeName of
//     a Pod, the roleRef of a RoleBinding and the parameters of a StorageClass may be written.
//   - Without [Options.Defaults] built-in kinds have no defaults. With it they have those that
//     TestDefaultsAreThoseOfTheServer compares, but no token volume and no default ServiceAccount
//     in Pods (which admission adds where controllers run), no default class of Ingresses and
//     claims, and no protecting finalizers of claims. A Job's labels are taken for defaults if they
//     equal those of its template.
//   - Without [Options.Namespaces] every namespace exists, unless asked for.
//   - Custom resources have defaults, pruning, validation and scale, CEL rules only by
//     [Options.Rules], and no conversion: the versions of a kind are kinds of their own.
//   - Built-in kinds have one version: of HorizontalPodAutoscalers autoscaling/v2, of others v1.
//   - Evictions ask no disruption budget. Roles grant nothing, and anybody may write any role.
//   - The generation of workloads counts changes of the spec alone, not of annotations.
//   - An empty list in the metadata that is applied to a custom resource is dropped at once. The
//     server keeps it until the next write, so that a write that changes nothing else gets a new
//     version there.
//
// Of clusters: nothing acts by itself. Owner references, the content of namespaces and workloads
// are the actors' business. Nothing acts on CronJobs, HorizontalPodAutoscalers, disruption budgets,
// network policies and aggregated ClusterRoles.
//
// Versions start after [Options.FirstVersion] and grow by one with every commit, generated names
// follow from how many there were, and a UID from the name and from how many objects of that name
// there were, so that a run in virtual time can be repeated.
package apimodel
