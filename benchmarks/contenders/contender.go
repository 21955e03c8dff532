package contenders

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
)

// Task is what a contender gets to do.
type Task struct {
	// Namespace holds the objects, and nothing else that matters.
	Namespace string
	// Objects is how many there are.
	Objects int
	// Workers is how many of them may be worked on at a time.
	Workers int
}

// Contender is one way of doing the work.
type Contender struct {
	// Name is one word, About a line for readers.
	Name, About string

	// run works until ctx ends, and tells tally of every run.
	run func(ctx context.Context, config *rest.Config, task Task, tally *Tally) error
}

// The names of those that figures refer to.
const (
	Ours         = "evenkeel"
	Peer         = "controller-runtime"
	Raw          = "raw"
	RawNoWatches = "raw-nowatch"
)

// All returns the contenders, in the order in which tables show them.
func All() []Contender {
	return []Contender{
		{Ours, "this framework with its defaults", runOurs},
		{Peer, "controller-runtime 0.25.2 with its defaults", peer{}.run},
		{Peer + "-generation", "... with the generation predicate", peer{generation: true}.run},
		{Peer + "-ryw", "... with read-your-writes (experimental)", peer{readYourWrites: true}.run},
		{Peer + "-both", "... with both", peer{generation: true, readYourWrites: true}.run},
		{Raw, "a client-go loop beside informers of both kinds", raw{watches: true}.run},
		{RawNoWatches, "a client-go loop that watches nothing", raw{}.run},
	}
}

// Named returns the contender of that name.
func Named(name string) (Contender, error) {
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
	}
	return Contender{}, fmt.Errorf("contenders: there is no contender %q", name)
}
