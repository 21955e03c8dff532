// Package callbacks is the table of all code of the author's that the library calls: every field of
// a function type of an exported struct, every method of an exported interface, and every function
// that an exported function takes. The table is generated from the source, so that a new callback
// cannot be forgotten: the tests fail until there is a row for it, which lets it panic, end its
// goroutine and hang, or says why it need not.
package callbacks
