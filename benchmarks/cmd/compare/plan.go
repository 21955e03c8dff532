package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
)

// scenario is one comparison: the same for all its contenders, in so many rounds.
type scenario struct {
	title   string
	suffix  string // of the figures' names
	objects int
	lag     time.Duration
	rounds  int
	names   []string // of the contenders
}

var (
	// essential are the contenders that figures need.
	essential = []string{contenders.Ours, contenders.Peer, contenders.Raw, contenders.RawNoWatches}
	// late are those that lag tells something about.
	late = append([]string{contenders.PeerReadYourWrites}, essential...)
)

// sizes are what a plan is made of.
type sizes struct {
	objects int             // of the main comparison and of those under lag
	many    int             // of the large comparison; 0 for none
	rounds  int             // of the main comparison
	lags    []time.Duration // one comparison each
	only    []string        // contenders; none for all
}

// quick is a plan to see that everything works.
var quick = sizes{objects: 100, rounds: 1, lags: []time.Duration{time.Second}}

func planOf(z sizes) ([]scenario, error) {
	if z.objects < 1 || z.many < 0 || z.rounds < 1 {
		return nil, errors.New("objects and rounds must be positive, many not negative")
	}
	names := z.only
	if len(names) == 0 {
		for _, c := range contenders.All() {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		if _, err := contenders.Named(name); err != nil {
			return nil, err
		}
	}
	among := func(of []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(of, name) })
	}
	plan := []scenario{{"", "", z.objects, 0, z.rounds, names}}
	for _, lag := range z.lags {
		if lag <= 0 {
			return nil, fmt.Errorf("lag %v: must be positive", lag)
		}
		plan = append(plan, scenario{fmt.Sprintf("watches lag by %v", lag), fmt.Sprintf("_lag%v", lag), z.objects, lag, 1, among(late)})
	}
	if z.many > 0 {
		plan = append(plan, scenario{"", fmt.Sprintf("_%d", z.many), z.many, 0, min(2, z.rounds), among(essential)})
	}
	return slices.DeleteFunc(plan, func(s scenario) bool { return len(s.names) == 0 }), nil
}

// round returns the contenders of a round, from 0: all of them in the first, in the others those
// that figures need, if there are any. Each round begins with another, and every second one goes
// the other way round: the server slows down as what it stores grows, which is to disturb all
// alike.
func (s scenario) round(number int) []string {
	names := s.names
	if number > 0 {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(essential, name) })
	}
	if len(names) == 0 {
		names = s.names
	}
	first := number % len(names)
	names = slices.Concat(names[first:], names[:first])
	if number%2 == 1 {
		slices.Reverse(names[1:])
	}
	return names
}

func (s scenario) String() string {
	if s.title == "" {
		return fmt.Sprintf("%d objects", s.objects)
	}
	return fmt.Sprintf("%d objects, %s", s.objects, s.title)
}
