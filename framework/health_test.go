package framework_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestG18AWatchThatIsSilentForTooLongIsNotReady(t *testing.T) {
	inVirtualTime(t, &pages{}, pageOptions{}, func(v *virtual) {
		v.pass(time.Hour)
		noError(v.t, v.op.Ready()) // a quiet resource is none that is dead
		v.model.Stall("webpages")
		v.pass(30 * time.Second) // two minutes may have passed before, as a new watch delays its first bookmark
		noError(v.t, v.op.Ready())
		v.pass(160 * time.Second)
		if err := v.op.Ready(); err == nil || !strings.Contains(err.Error(), "Kind=WebPage: nothing was heard for ") {
			v.t.Errorf("after more than three minutes of silence: %v", err)
		}
		v.model.Release("webpages")
		v.pass(2 * time.Minute)
		noError(v.t, v.op.Ready())
	})
}

func TestG18ARunThatIgnoresItsDeadlineShowsInAlive(t *testing.T) {
	goOn := make(chan struct{})
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		<-goOn
		return pageUpdate{}, nil
	}}
	var op interface{ Alive() error }
	inVirtualTime(t, r, pageOptions{RunTimeout: time.Minute}, func(v *virtual) {
		op, goOn = v.op, make(chan struct{})
		v.create(newPage("default", "stuck"))
		v.pass(110 * time.Second)
		noError(v.t, v.op.Alive())
		v.pass(20 * time.Second)
		if err := v.op.Alive(); err == nil || !strings.Contains(err.Error(), `controller "webpage": runs have not ended after their deadline: default/stuck`) {
			v.t.Errorf("after two minutes: %v", err)
		}
		close(goOn)
		v.pass(0)
		noError(v.t, v.op.Alive())
	})
	if err := op.Alive(); err == nil || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("after the end: %v", err)
	}
}
