// Package simulation runs the whole framework in worlds of their own, in virtual time; it consists
// of tests only. Each seed makes one world: an API server in memory (internal/apimodel), one or two
// instances of an operator with one or two controllers, others who change all there is, weather
// that hits the requests of the instances, lagging, cut, expired and silent watches, restarts and
// crashes. After the weather all comes to rest within minutes.
//
// What is held against the model's own history, which nobody in the world knows (the oracle is
// truth_test.go):
//
//   - G01 G02 G03: every read is of a state that still was at the newest version known to the
//     reader: its own writes, however it learned of them, whatever was answered to any instance,
//     and what it had read before, from caches or past them; and an unstructured object that was
//     read is, field by field, what it was at its version, though the Go type in which the operator
//     writes that kind lacks a field;
//   - G04 G12: at rest, the last run of each page has seen all that others did, what is wanted is
//     so, and nothing is written any more;
//   - G05: in calm worlds (no faults, but watches that lag) each thing that others do makes as many
//     runs as it must, also where a run writes more objects than the 64 causes that a run is told
//     one by one;
//   - G06: there is one run of a page at a time, and who writes holds the lease, renewed in time;
//   - G09 G14: finalizers come and go as promised, those of others stay, and no write is on another
//     incarnation;
//   - a fight or a loop that a run names is one: the fields were set back, and nobody else has
//     caused the run. Planted ones are named (contests_test.go);
//   - G16 G18 G19: nothing is kept at rest, nor of pages that are gone, nor a goroutine; a stop is
//     bounded, and nothing is written after it.
//
// How to run it: go test ./internal/simulation makes two hundred worlds and some rare ones. With
// the race detector it makes twenty-five and those; make test-long makes a thousand with it. A
// failure names its seed: SIMULATION_SEED=n go test -v repeats that one, and tells its requests and
// runs; SIMULATION_SEEDS=n makes n worlds, from SIMULATION_SEED on if that is given.
//
// # Concurrency
//
// Worlds share nothing and run in parallel, each in a bubble of testing/synctest. What happens to a
// request depends on the seed, on what it is and how many like it came before, so that a world is
// the same each time, except for goroutines that are ready at the same instant and for client-go's
// jitter of watches.
//
// # What it does not do
//
// Where instances elect a leader, pages have few objects. Kinds are always served, and objects
// always decode. A crash is an instance that nobody hears of any more and that is then stopped; its
// memory is gone, but no goroutine is killed. Real connections, several API servers and etcd are
// for internal/freshnesstest.
package simulation
