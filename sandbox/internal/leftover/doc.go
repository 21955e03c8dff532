// Package leftover finds what a control plane has left behind, for tests.
//
//	err := leftover.Check(plane.Folder(), "127.0.0.1:6443") // nil if nothing is there
//
// # Concurrency
//
// All functions may be called from several goroutines.
//
// # What it does not do
//
// It looks at processes through /proc, so it works on Linux only, and returns an error
// elsewhere. It sees only processes of its own user.
//
// # Debugging
//
// The errors name the processes with their command lines.
package leftover
