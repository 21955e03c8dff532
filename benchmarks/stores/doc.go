// Package stores holds no code but tests: it sets the memory of the framework's caches beside that
// of controller-runtime's, for many secondaries that three controllers of one operator, or of one
// manager, share.
//
//	make bench                                                             # in the root folder: prints the figure
//	EVENKEEL_FIGURES=1 go test -count=1 -run '^TestFigures$' -v ./stores   # in the module's
//
// Each contender is a process of its own. It reads from a server in the test's process that answers
// both alike: the model of an API server, and beside it the secondaries as they would have come
// from server-side applies, one field manager each. They come as JSON, by streamed lists, which
// both ask for by default. What is measured is the heap that the garbage collector leaves once all
// primaries have been run and nothing happens any more, less that of the same contender without
// secondaries.
//
// The peer is measured with its defaults, for the figure, and beside it without managedFields, as
// its documentation recommends for large clusters.
//
// # What it does not do
//
// It judges nothing. Nor does it measure peaks: how a first list passes through is another matter
// than what stays.
package stores
