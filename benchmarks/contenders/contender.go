package contenders

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
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
	Ours               = "evenkeel"
	Peer               = "controller-runtime"
	PeerReadYourWrites = "controller-runtime-ryw"
	Raw                = "raw"
	RawNoWatches       = "raw-nowatch"
)

// All returns the contenders, in the order in which they are measured and shown: those that are
// divided by one another are neighbours, so that what else the machine does disturbs them alike.
func All() []Contender {
	return []Contender{
		{RawNoWatches, "a client-go loop that watches nothing", raw{}.run},
		{Raw, "... beside informers of both kinds", raw{watches: true}.run},
		{Ours, "this framework with its defaults", ours{}.run},
		{Peer, "controller-runtime 0.25.2 with its defaults", peer{}.run},
		{PeerReadYourWrites, "... with read-your-writes (experimental)", peer{readYourWrites: true}.run},
		{Peer + "-generation", "... with the generation predicate", peer{generation: true}.run},
		{Peer + "-both", "... with both", peer{generation: true, readYourWrites: true}.run},
		{Ours + "-patch", "this framework with the ConfigMap by POST", ours{secondaryWrites: framework.ByPatch}.run},
		{Raw + "-apply", "raw with our requests: merge patch, apply, merge patch", raw{watches: true, apply: true}.run},
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
