// Package runs holds no code but tests: it sets a run that does nothing beside
// controller-runtime's, from an event about the primary to the end of its run through a whole
// operator of each, in one process and in turns.
//
//	make bench                                                          # in the root folder: prints figures
//	EVENKEEL_FIGURES=1 go test -count=1 -run TestFigures -v ./runs      # in the module's
//	go test -run '^$' -bench . -benchmem -cpuprofile cpu.pprof ./runs   # where the time goes
//
// The objects are custom resources that both have listed once from an API server in memory, and
// watch. Events come from an event source of the author's on either side, so that nothing else is
// measured: no request is made, none is answered. Logs are discarded.
//
// # What it does not do
//
// The two are no equals in what a run has. Ours gives the author a copy of the primary, a deadline
// and the proof of what it writes; the peer counts metrics, and its author asks the cache for the
// primary. That read is left out of the figure and measured beside it.
package runs
