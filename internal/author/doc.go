// Package author calls code that the author of an operator wrote: filters, mappers, index
// functions, sources, and the methods of errors and of logged values. Such code may panic, end its
// goroutine (runtime.Goexit, as the FailNow of a test does), or not return. None of that may end
// the process, block the framework's locks, or go unreported.
//
//	failure := author.Apart(10*time.Second, func() { keys = mapper(object) })
//
// [Try] is for code that runs in the caller's goroutine anyway and is called often: it recovers a
// panic and costs a few nanoseconds. [Apart] handles all three cases and costs a goroutine: about a
// microsecond. A [Callback] is Apart with a name: it measures calls, reports slow ones, and does
// not call a function again while a call of it hangs.
//
// # Concurrency
//
// Everything is safe for concurrent use.
//
// # What it does not do
//
// It cannot end a goroutine that hangs: that goroutine stays until the function returns. It does
// not protect from code that exhausts the memory, ends the process (os.Exit), or fails where Go
// allows no recovery (concurrent writes of a map, a full stack).
package author
