// Package why shows why an operator did what it did: web pages, each with a JSON twin, of the
// newest runs of each primary, of controllers, sources and caches.
//
//	pages, err := why.New(why.Options{})
//	op, err := framework.NewOperator(config, framework.OperatorOptions{
//		Observers: []observe.Observer{pages},
//	})
//	...
//	pages.Of(op)
//	server, err := debughttp.Listen(debughttp.Options{Operator: op, Pages: pages.Handler()})
//
//	/debug/evenkeel/                             the operator: controllers, what fails, sources, caches
//	/debug/evenkeel/CONTROLLER                   its workflow, its newest, slowest and most frequent runs
//	/debug/evenkeel/CONTROLLER/NAMESPACE/NAME    the runs of a primary: causes, waits, writes, nodes, errors
//
// NAMESPACE is - for what is cluster-scoped. With ?format=json, or for a client that accepts
// application/json, each answer is JSON. Open pages follow what happens.
//
// # What it keeps
//
// The newest records of each primary, and all of them within a number of bytes, which is estimated:
// see [Options]. The oldest go first. Records of primaries that are gone stay until then.
//
// Pages hold names, versions, field managers, times, and the texts of errors, which the framework
// keeps free of what a server says of Secrets. They hold no objects, so no values of fields.
//
// # Concurrency
//
// All methods may be called from many goroutines.
//
// # What it does not do
//
// It decides nothing, changes nothing in the operator, and makes no request to an API server.
package why
