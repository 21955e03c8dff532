package trc_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
)

func TestG05_WhatFollowsTheDeliveriesWaitsForThem(t *testing.T) {
	r := newRig(t)
	r.lists(10)
	blocked, release, delivered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var order []string // by the goroutine that delivers alone
	r.Subscribe(func(t trc.Transition) {
		if order = append(order, describe(t)); len(order) == 1 {
			close(blocked)
			<-release
		}
	})
	go func() {
		defer close(delivered)
		r.adds(object("a", "u1@11"))
	}()
	<-blocked
	r.acknowledge(object("b", "u2@12"))
	r.After(func() { order = append(order, "after") })
	r.acknowledge(object("c", "u3@13"))
	close(release)
	<-delivered
	if want := []string{"add a u1@11", "add b u2@12", "after", "add c u3@13"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
}
