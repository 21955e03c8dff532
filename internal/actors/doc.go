// Package actors does to an [apimodel.Model] what controllers and kubelets do to a cluster, in
// virtual time:
//
//	synctest.Test(t, func(t *testing.T) {
//		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
//		actors.Start(t.Context(), model, actors.Options{})
//		...                      // Deployments become ready, orphans are deleted
//	})
//
// They act by ordinary requests, as the user agents kube-controller-manager/... and kubelet/..., so
// that [apimodel.Model.History] shows what they did and [apimodel.Model.Intercept] can disturb
// them: a request that fails is repeated.
//
// # Concurrency
//
// All actors share one goroutine. It ends with its context, and waits on channels and timers alone:
// it costs nothing while nothing happens.
//
// # What they do not do
//
// See each of the constants of [Actor].
package actors
