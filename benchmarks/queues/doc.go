// Package queues holds no code but tests: it sets the scheduler beside controller-runtime's
// priority queue, both with runs that do nothing, in one process and in turns.
//
//	make bench                                                            # in the root folder: prints figures
//	EVENKEEL_FIGURES=1 go test -count=1 -run TestFigures -v ./queues      # in the module's
//	go test -run '^$' -bench . -benchmem -cpuprofile cpu.pprof ./queues   # where the time goes
//
// # What it does not do
//
// It judges nothing: a machine is noisy. The two are no equals in what they do, either: the queue
// knows neither why a key is due, nor what is to follow its run, nor does it run anything.
package queues
