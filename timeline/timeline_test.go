package timeline_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
)

func ExampleRecorder() {
	recorder := timeline.NewRecorder(2)
	for i := range 3 {
		recorder.Add(timeline.Record{
			Key: fmt.Sprintf("default/page-%d", i), Duration: time.Millisecond,
			Causes: []timeline.Cause{timeline.Resource{
				Action: timeline.Updated, Kind: "WebPage", Namespace: "default", Name: fmt.Sprintf("page-%d", i),
				OldVersion: "7", NewVersion: "8",
			}},
		})
	}
	for _, record := range recorder.Records() {
		fmt.Println(record)
	}
	// Output:
	// default/page-1 succeeded in 1ms because WebPage default/page-1 updated 7→8; 0 writes
	// default/page-2 succeeded in 1ms because WebPage default/page-2 updated 7→8; 0 writes
}

func TestCausesReadAsSentences(t *testing.T) {
	for want, cause := range map[string]timeline.Cause{
		"Node n1 added 4":            timeline.Resource{Action: timeline.Added, Kind: "Node", Name: "n1", NewVersion: "4"},
		"Pod a/b deleted 9":          timeline.Resource{Action: timeline.Deleted, Kind: "Pod", Namespace: "a", Name: "b", OldVersion: "9"},
		"rescheduled after 5s":       timeline.Timer{After: 5 * time.Second},
		"retry 3":                    timeline.Retry{Attempt: 3},
		"max interval 10h0m0s":       timeline.MaxInterval{Interval: 10 * time.Hour},
		"external queue message-7":   timeline.External{Source: "queue", ID: "message-7"},
		"manual by an administrator": timeline.Manual{By: "an administrator"},
		"12 more":                    timeline.Overflow{Count: 12},
		"Pod a/b updated 9→10":       timeline.Resource{Action: timeline.Updated, Kind: "Pod", Namespace: "a", Name: "b", OldVersion: "9", NewVersion: "10"},
	} {
		if got := cause.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRecorderKeepsTheNewestInOrder(t *testing.T) {
	for size := 1; size < 6; size++ {
		recorder := timeline.NewRecorder(size)
		var all []string
		for i := range 13 {
			all = append(all, fmt.Sprint(i))
			recorder.Add(timeline.Record{Key: fmt.Sprint(i)})
			var got []string
			for _, r := range recorder.Records() {
				got = append(got, r.Key)
			}
			if want := all[max(0, len(all)-size):]; !slices.Equal(got, want) {
				t.Fatalf("size %d after %d records: kept %v, want %v", size, i+1, got, want)
			}
		}
	}
}

func TestRecordsAreInTheOrderOfTheirStarts(t *testing.T) {
	recorder, start := timeline.NewRecorder(3), time.Now()
	for _, after := range []time.Duration{4, 1, 3, 2} {
		recorder.Add(timeline.Record{Started: start.Add(after)})
	}
	records := recorder.Records()
	for i, want := range []time.Duration{1, 2, 3} {
		if got := records[i].Started.Sub(start); got != want {
			t.Errorf("record %d started after %v, want %v", i, got, want)
		}
	}
}

func TestNilRecorderCostsNothing(t *testing.T) {
	recorder := timeline.NewRecorder(0)
	if n := testing.AllocsPerRun(100, func() { recorder.Add(timeline.Record{}) }); n != 0 {
		t.Errorf("%v allocations per record while off, want 0", n)
	}
	if recorder.Records() != nil {
		t.Error("a nil recorder returned records")
	}
}

func TestARecordShowsTheNodesOfItsWorkflow(t *testing.T) {
	record := timeline.Record{
		Key: "default/p", Outcome: timeline.Failed, Err: "broken", Stack: "goroutine 1",
		Causes: []timeline.Cause{timeline.Retry{Attempt: 1}},
		Nodes: []timeline.Node{
			{Pass: "reconcile", Name: "config", State: "Ready"},
			{Pass: "reconcile", Name: "web", State: "Failed", Reason: "reconcile: broken", Err: "broken"},
		},
	}
	const want = "default/p failed in 0s because retry 1; 0 writes; nodes config Ready, web Failed: reconcile: broken: broken"
	if got := record.String(); got != want {
		t.Errorf("it reads %q, want %q", got, want)
	}
}
