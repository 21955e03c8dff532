// Package tracing makes OpenTelemetry traces of what an operator does.
//
//	op, err := framework.NewOperator(config, framework.OperatorOptions{
//		Observers: []observe.Observer{tracing.New(tracing.Options{})},
//	})
//
// It uses only the API of OpenTelemetry. The program sets up the SDK, an exporter and a sampler, as
// with otel.SetTracerProvider. It is a module of its own, so that those who have no traces do not
// get OpenTelemetry into their go.sum.
//
// # Runs
//
// A run that wrote or failed is a span, named "reconcile" and the controller. Other runs leave no
// span: see [Options].EveryRun. Attributes have the names of the log's values where there are such:
//
//   - controller, namespace, name, reconcileID
//   - causes: up to 10 texts, and how many more there were
//   - attempt, outcome; gate if something held the run back; waited, in seconds
//   - writes: the number of write requests
//   - requests_omitted: requests that have no span, because the run had 100 already
//   - excused, error: the text of a failure that the run itself did not cause
//
// A failure or a panic is an error status with the text of the error. An excused failure, such as a
// run that was cut off, or that the server asked to come again later, is not.
//
// Each run is a trace of its own, also if the context of Operator.Run has a span. It begins with
// the run and not with its causes. waited is the time before.
//
// # Requests and nodes
//
// Each request of the run to an API server is a child: reads past the cache, writes, and each
// attempt of the client. It lasts until the header of the answer. Its attributes are
// http.request.method, server.address, group, resource, subresource, namespace and name as far as
// the path has them, and http.response.status_code. The status is an error if there is no answer,
// or one from 500 on. Others, such as 404 and 409, are daily life of an operator.
//
// The request's header traceparent has the span of the request. If tracing of the API server is on,
// its spans are linked to it, or are children for clients of the group system:masters.
//
// Lists, watches, leases and events belong to no run. They have no span and no header. The same is
// true of requests with the context of a run that ended without a span.
//
// Each node of a workflow is a child, too, with the attributes node, pass, state, because and
// reason. A node of which no function was called has the length 0, at the end of the run. Requests
// are children of the run, not of nodes.
//
// # Spans of the author
//
// The context of the reconciler has the span of the run, so spans that are started with it are its
// children. The same is true of nodes, conditions and cleanup. If such a run leaves no span, the
// parent of these children is missing. Set [Options].EveryRun if the reconciler starts spans of its
// own. Otherwise set it to look at runs that do nothing.
//
// The logger of a sampled run has the values trace_id and span_id. Whether the run leaves a span is
// known only when it ends. So the trace of a logger whose run did nothing is not found.
//
// # What leaves the process
//
// Traces hold names, versions, field managers, numbers, and texts of errors and reasons. They never
// hold objects, bodies of requests, or queries. But a text may quote: when an API server refuses an
// object, its error has the values of the refused fields. The framework keeps out of its errors
// what a server says of Secrets. Errors and reasons of the author's own code are exported as they
// are, up to 1024 bytes each. If those who read the traces must not see that, set
// [Options].OmitTexts. Causes have the IDs of events of external sources, and the names of those
// who trigger runs.
//
// # Costs
//
// Which runs are exported is decided when they end, so all sampled runs are started, and those that
// do nothing are never ended. That is what the OpenTelemetry SDK expects of spans that are dropped,
// but a span processor that counts started spans counts them, too. RunEnded ends all spans of the
// run. With a batching processor, that does not wait for the network.
//
// # Concurrency
//
// All methods may be called from many goroutines.
//
// # What it does not do
//
// It decides nothing about sampling. Samplers see the names of the spans, and no attributes. It
// sets no global, and makes neither metrics nor logs.
package tracing
