// Package workflows holds no code but tests: what a workflow of Kubernetes objects costs where
// nothing is to be done, and how long it takes to become ready, beside a controller that somebody
// has written by hand with controller-runtime.
//
//	make bench-compare                                                      # prints the figures, too
//	EVENKEEL_FIGURES=1 go test -count=1 -run '^TestFigures$' -v ./workflows # only these, in some minutes
//	go test ./workflows                                                     # the same code at small size, for its behaviour
//
// Steady: primaries with five dependents each have converged. Then every primary is run again,
// single fields are changed by somebody else, and the operator is restarted; what is counted are
// requests, and objects whose version changed.
//
// Ready: a chain of five levels, three of them Deployments on a control plane with simulated nodes;
// measured is the time from the request that creates a primary to the event that shows it as ready.
// Rounds of both take turns.
package workflows
