// Package wire stands between a client and a real API server at the level of sockets, and breaks
// them.
//
//	w, err := wire.Start(env.Config)
//	defer w.Stop()
//	client, err := kubernetes.NewForConfig(w.Config())
//	...
//	w.HoldAnswers()          // what the server sends stays here from now on
//	go client.Create(...)
//	...                      // see by another way that the server has carried it out
//	w.Break(wire.Reset)      // the connections break, and the answer is lost
//
// It passes bytes on and cannot read them: the client speaks TLS with the server itself. So the
// errors are those of the client's own network stack, which a proxy that ends TLS does not produce.
// Package faultproxy is for faults of chosen requests and events.
//
// # The faults
//
// [Wire.HoldAnswers] and [Wire.HoldRequests] keep the bytes of one direction, [Wire.Release] passes
// them on. [Wire.Break] ends all connections in one of the ways of [Way]; what is held is lost, but
// for what the way passes on. [Wire.Refuse] lets nobody connect until [Wire.Accept].
//
// # Concurrency
//
// All methods may be called from any goroutine. What they do is done when they return, except that
// bytes which the kernel has taken already may still arrive.
//
// # What it does not do
//
// It does not choose among connections or requests, and does not slow anything down.
//
// # Debugging
//
// [Wire.Open] is the number of connections at the moment, [Wire.Held] the number of bytes that are
// held back.
package wire
