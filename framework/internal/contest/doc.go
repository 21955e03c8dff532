// Package contest finds two things that make an operator busy for nothing: fights, in which two
// writers keep setting the same field of an object back, and loops, in which runs of the operator
// keep causing each other.
//
//	book := &contest.Book{}
//	chain := book.Follow(controller, causes) // when a run begins
//	fight := book.Wrote(contest.Write{By: by, Next: chain.Next(), ...}) // after each write of it
//	loop := chain.At().IsLoop()              // when it has ended
//
// # How a fight is found
//
// Before a write is shown by the caches, they show what it met. If that is no version that the same
// writer wrote, and the writer has written the object before, the two versions are compared. A
// field that the write gave the value that the writer had given it before was set back. If that
// happens [Enough] times within [Window], it is a fight. Only hashes of values are kept.
//
// # How a loop is found
//
// A run has a place in a chain: the number of runs before it that nothing but runs of the operator
// has caused. The place of a run is known by the versions that it wrote: they are the causes of
// others. A run that anything else has caused, too, begins a new chain. A run may begin before the
// write that has caused it is answered, so its place is looked for when it writes and when it ends.
//
// # Invariants
//
// A fight that is named has set its fields back, and a run of a loop that is named had no cause but
// runs of the operator. The book may miss some: it keeps two versions of [sets] times [ways]
// objects, follows [maxObjects] objects of a writer each, and drops others. What it forgets, or is
// not told before a run writes that it has caused, it takes for unknown.
//
// # Concurrency
//
// A Book may be used from many goroutines. Its lock is a leaf.
//
// # What it does not do
//
// It stops nothing, and sees only objects that a cache shows. It does not find that others delete
// what the operator creates: jobs and others that are deleted when they are done look the same.
package contest
