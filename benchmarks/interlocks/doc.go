// Package interlocks holds no code but tests: what the interlock of providers and dependents asks
// of an API server, beside what its design promises, and what a dependent takes with it and
// without.
//
//	make bench-compare                                                       # prints the figures, too
//	EVENKEEL_FIGURES=1 go test -count=1 -run '^TestFigures$' -v ./interlocks # only these, in some minutes
//	go test ./interlocks                                                     # the same code at small size, for its behaviour
//
// ConfigMaps stand for providers, and WebPages for dependents, each of one provider. What
// implements a page is its status: the least there can be, so that what the interlock adds shows.
// The guard and the controller of the pages are operators of their own, whose requests are counted
// apart by what their transports see.
package interlocks
