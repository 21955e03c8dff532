// Package lockorder compares the order in which goroutines take locks with the table in
// docs/architecture.md. It consists of tests only; what they record with is package recorder.
//
//	go test ./internal/lockorder                    # half a minute; two if little is built
//	go test -v -run TheTable ./internal/lockorder   # prints all pairs, and what the tests print
//	go test -skip TheTable ./internal/lockorder     # only that mistakes are noticed, a second
//
// # How it works
//
// The production sources are copied to a temporary folder. In the copies, each call of a method
// that takes or releases a lock is replaced by one that also records it. The go command takes the
// copies through -overlay and runs tests of the framework. Lines stay where they are, so failures
// of these tests name the right ones.
//
// The test fails for
//   - a pair of locks that the table does not have,
//   - a cycle of pairs, also of one: two locks of one class at a time,
//   - a row of the table that no test has used.
//
// # What is a lock
//
//   - Mutexes: sync.Mutex and sync.RWMutex, as fields, embedded ones, variables, and through
//     pointers. Readers count like writers.
//   - The lock of an object that is written: write.turn.free, a channel that holds one token while
//     the lock is free. Like each channel of this kind it is named in the test. There is no other.
//   - A sync.Once while its function runs. All of them are leaves.
//
// Locks of a class are all alike: a class is the package, type and field, or the variable. A mutex
// whose class the source does not tell, as one behind a sync.Locker, is refused.
//
// The mutex of internal/apimodel is recorded, too. It is taken by requests. As it is in no row but
// those for any lock, no request is sent while another lock is held.
//
// # What it does not do
//
// It knows only what the tests execute, and only what one goroutine does: a workflow run holds its
// turn while other goroutines execute nodes, and so does each lock that is held while a goroutine
// waits for another one. What is not recorded:
//   - sync.OnceFunc, sync.OnceValue and locks of other modules;
//   - code of authors: internal/callbacks looks for calls of it;
//   - tests with a real API server, and the exploration of framework/interlock, which take minutes;
//   - models of trc, tests of framework that repeat the same a thousand times, and tests that count
//     allocations, which would count the recorder's.
//
// The board of internal/mutants has no mutants for it: this package reads the sources as they are
// in the tree, not as the board compiles them.
//
// # Concurrency
//
// The tests that are run append to one file. Nothing else is shared.
package lockorder
