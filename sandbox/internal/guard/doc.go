// Package guard cleans up after a process that could not do so itself.
//
// A process that starts others and makes temporary files can tidy up on every way
// out but one: SIGKILL. So it starts a guard first: one more process, in a session
// of its own (a Ctrl-C in the terminal misses it), that holds the reading end of a
// pipe. The kernel closes the writing end when the owner dies, however it dies.
// Unless the owner has said "done" before, the guard then kills the process groups
// and removes the files it was told of.
//
//	g, err := guard.Start(binary, environment)   // the owner
//	err = g.Remove(folder)                       // before it makes the folder
//	err = g.Group(cmd.Process.Pid)               // after it starts a process
//	err = g.Done()                               // it has tidied up itself
//
//	os.Exit(guard.Run(os.Stdin))                 // `binary __guard`
//
// # Concurrency
//
// A [Guard] may be used from several goroutines.
//
// # What it does not do
//
// It cannot know of a process whose owner was killed between starting and naming
// it; the components therefore also watch their parent (package components). It
// does not survive its own SIGKILL; the next start then removes the files (package
// sandbox, owned.go).
//
// # Debugging
//
// A guard shows up in `ps` as "sandbox __guard". It writes what fails to standard
// error, which it shares with its owner.
package guard
