// Package wire counts and delays what a client exchanges with an API server. Both a [Counter] and a
// [Lag] go into rest.Config.Wrap and know nothing of the client above them, so that they treat all
// contenders alike:
//
//	counter := wire.NewCounter(1000)
//	config.Wrap(counter.Wrap)
//	config.Wrap(wire.Lag(time.Second).Wrap)
//	<-counter.Done() // the status of 1000 objects is written
//
// # Concurrency
//
// Everything may be used from several goroutines.
//
// # What it does not do
//
// It looks at paths, methods and status codes, never into bodies but for the end of a watch's first
// list.
package wire
