// Package author calls code that the author of an operator wrote: filters, mappers, index functions, sources, the
// methods of errors and of values that are logged. Such code may panic, end its goroutine (runtime.Goexit, as the
// FailNow of a test does), or not return. None of that may end the process, lock what is ours, or stay unnamed.
//
//	failure := author.Apart(10*time.Second, func() { keys = mapper(object) })
//
// [Try] is for code that runs in the caller's goroutine anyway and is called often: it stops a panic and costs a few
// nanoseconds. [Apart] stops everything, and costs a goroutine: about a microsecond. A [Callback] is Apart with a
// name: it measures, reports what is slow, and does not call a function again while a call of it hangs.
//
// # Concurrency
//
// Everything is safe for concurrent use.
//
// # What it does not do
//
// It cannot end a goroutine that hangs: that goroutine stays until the function returns. It does not protect from
// code that exhausts the memory, ends the process (os.Exit), or fails where Go allows no recovery (concurrent writes
// of a map, a full stack).
package author
