//go:build amd64 || arm64

package recorder

// current identifies the calling goroutine, by the address of what the runtime keeps about it. A
// later goroutine may have the same one, once this goroutine has ended. Parsing runtime.Stack would
// take a hundred times as long.
func current() uintptr
