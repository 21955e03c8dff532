package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

func planOf(quick bool, objects, many, rounds int, only string) ([]scenario, error) {
	if objects < 1 || many < 0 || rounds < 1 {
		return nil, errors.New("objects and rounds must be positive, many not negative")
	}
	var names []string
	for _, c := range contenders.All() {
		names = append(names, c.Name)
	}
	if only != "" {
		names = strings.Split(only, ",")
		for _, name := range names {
			if _, err := contenders.Named(name); err != nil {
				return nil, err
			}
		}
	}
	among := func(of []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(of, name) })
	}
	if quick {
		return []scenario{
			{"", "", 100, 0, 1, names},
			{"watches lag by 1 s", "_lag1s", 100, time.Second, 1, among(late)},
		}, nil
	}
	plan := []scenario{
		{"", "", objects, 0, rounds, names},
		{"watches lag by 1 s", "_lag1s", objects, time.Second, 1, among(late)},
		{"watches lag by 10 s", "_lag10s", objects, 10 * time.Second, 1, among(late)},
	}
	if many > 0 {
		plan = append(plan, scenario{"", fmt.Sprintf("_%d", many), many, 0, 1, among(essential)})
	}
	return slices.DeleteFunc(plan, func(s scenario) bool { return len(s.names) == 0 }), nil
}

func (s scenario) String() string {
	if s.title == "" {
		return fmt.Sprintf("%d objects", s.objects)
	}
	return fmt.Sprintf("%d objects, %s", s.objects, s.title)
}
