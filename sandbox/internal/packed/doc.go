// Package packed tests that the module works for somebody who has only its name:
// `go install github.com/evenkeel/evenkeel/sandbox@version`, with the module served
// as a zip file, as a module proxy does. A replace directive, a file that is not
// packed, or an import that reaches outside the module would show here and nowhere
// else.
//
// # What it does not do
//
// It has no code of its own. It is a package apart because its test takes the
// longest: it links the whole program once more.
//
// # Debugging
//
// The go command's own output is in the test's failure; "go install -x" by hand, with
// the environment from there, shows more.
package packed
