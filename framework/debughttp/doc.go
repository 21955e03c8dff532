// Package debughttp is the one HTTP listener of an operator: probes, metrics and profiles.
//
//	server, err := debughttp.Listen(debughttp.Options{
//		Address: ":8080", Operator: op, Metrics: metrics.Handler(),
//	})
//	...
//	err = server.Run(ctx) // beside op.Run
//
//	/healthz          200 unless only a new process would help: framework.Operator.Alive
//	/readyz           200 if the operator can work: framework.Operator.Ready
//	/metrics          Options.Metrics
//	/debug/evenkeel/  Options.Pages: why the operator did what it did
//	/debug/pprof/     profiles as "go tool pprof" fetches them, if Options.Profiles is set
//
// A probe that fails answers with 503 and the text of what is wrong.
//
// # Who may read
//
// Without an address, the listener is on localhost: kubectl port-forward reaches it. Probes of the
// kubelet need the address of the Pod, as with ":8080". With Options.Guard, everything but the two
// probes needs a bearer token whose user may get the path; see [Review].
//
// # Concurrency
//
// A Server is run once. Its handlers may be used from many goroutines.
//
// # What it does not do
//
// It registers nothing in net/http's default mux, neither itself nor profiles.
package debughttp
