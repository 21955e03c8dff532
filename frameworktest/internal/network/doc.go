// Package network is the way between a process under test and its API server: it recognises the
// process's requests, counts its writes, and breaks what a test wants broken.
//
//	line := &network.Line{Decide: func(r network.Request) network.Break { ... }}
//	config.Wrap(line.Wrap)
//	line.Die()                  // no request reaches the server from now on, no answer the process
//
// # Concurrency
//
// A Line may be used by several goroutines. Decide is called by all of them, without a lock.
package network
