// Package events holds no code but tests: it sets what an event about a secondary costs until its
// primary is offered to the scheduler beside a client-go SharedInformer with a handler, and beside
// controller-runtime's source with EnqueueRequestForOwner. All take turns in one process.
//
//	make bench                                                            # in the root folder: prints figures
//	EVENKEEL_FIGURES=1 go test -count=1 -run TestFigures -v ./events      # in the module's
//	go test -run '^$' -bench . -benchmem -cpuprofile cpu.pprof ./events   # where the time goes
//
// # What is measured
//
// The CPU time of the process, garbage collection included, for the events of a watch of 10,000
// ConfigMaps with managedFields: four in five are updates, the others deletions and additions. Each
// is mapped to one owner by its owner reference. A client-go Reflector delivers them to all; what
// it costs with a store that does nothing is measured in the same turns and subtracted, so what is
// compared lies between the reflector's call into the store and the offer. The offer itself is
// counted, and nothing more. With decoding, the events come as protobuf from a response of HTTP,
// through client-go's typed client, and nothing is subtracted.
//
// The peer is controller-runtime; the limits are for it. The SharedInformer by itself, without the
// index by owner and the causes, is there for reference: with decoding, ours takes 1.05 to 1.11
// times its CPU on two processors and 0.81 to 0.88 on one (GOMAXPROCS=1). What is between these is
// handing over: client-go's decoding goroutine and the reflector's meet at each event, over an
// unbuffered channel, and wait for each other more often when both have about as much to do.
//
// # What it does not do
//
// The contenders are no equals in what they have in the end. Ours keeps an index of secondaries by
// primary, remembers who changed an object last, drops managedFields, and says in the offer what
// has changed; the peer's cache is indexed by namespace. The peer's queue is left out, as ours is:
// it is a stub without priorities, which spares the peer to look for them.
package events
