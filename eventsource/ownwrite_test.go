package eventsource_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

func TestO1_O2_O8_O13_O17_OnlyAStepThatTheWritersEdgesExplainIsItsOwn(t *testing.T) {
	writer := trc.Writer{Controller: "pages", Primary: trc.Key{Namespace: "ns", Name: "p"}}
	ledger := trc.NewLedger(0)
	page := ledger.Open(writer)
	page.Record(trc.Edge{UID: "u1", To: "3"})
	page.Record(trc.Edge{UID: "u1", From: "3", To: "5"})
	for _, row := range []struct {
		name   string
		writer trc.Writer
		cause  timeline.Cause
		want   bool
	}{
		{"its creation", writer, timeline.Resource{Action: timeline.Added, UID: "u1", NewVersion: "3"}, true},
		{"its update", writer, timeline.Resource{Action: timeline.Updated, UID: "u1", OldVersion: "3", NewVersion: "5"}, true},
		{"both as one addition", writer, timeline.Resource{Action: timeline.Added, UID: "u1", NewVersion: "5"}, true},
		{"its update, by which it adopts", writer, timeline.Resource{Action: timeline.Updated, UID: "u1", OldVersion: "3", NewVersion: "5", Entered: true}, false},
		{"a deletion of what it made", writer, timeline.Resource{Action: timeline.Deleted, UID: "u1", OldVersion: "5"}, false},
		{"another's update", writer, timeline.Resource{Action: timeline.Updated, UID: "u1", OldVersion: "5", NewVersion: "6"}, false},
		{"its update, to another", trc.Writer{Controller: "books", Primary: writer.Primary}, timeline.Resource{Action: timeline.Updated, UID: "u1", OldVersion: "3", NewVersion: "5"}, false},
		{"a timer", writer, timeline.Timer{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := eventsource.Own(ledger, row.writer, row.cause); got != row.want {
				t.Errorf("own: %v, want %v", got, row.want)
			}
		})
	}
}
