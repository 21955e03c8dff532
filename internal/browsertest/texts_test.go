package browsertest

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// told is an operator of which a test says what it does.
type told struct {
	ready     error
	occupancy health.Occupancy
	sources   []health.Source
}

func (o told) Ready() error                { return o.ready }
func (o told) Occupancy() health.Occupancy { return o.occupancy }
func (o told) Health() []health.Source     { return o.sources }

// nothingYet serves the pages of an operator that has not done anything.
func nothingYet(t *testing.T) (url string) {
	return serve(t, told{}, func(*why.Pages) {})
}

// longTexts serves pages with names, errors and lists that are as long as they can be.
func longTexts(t *testing.T) (url string) {
	name := strings.Repeat("a-very-long-name", 15) + "-end"
	longest := types.NamespacedName{Namespace: name[:63], Name: name}
	failure := strings.Repeat("the server refused it, and says why at length; ", 30) + strings.Repeat("unbroken", 80)
	nodes, states := wideWorkflow(name, failure)
	op := told{
		ready: errors.New(failure),
		occupancy: health.Occupancy{
			Controllers: []health.Controller{{
				Name: name[:200], Kind: "a-group-with-a-long-name.of.some.company.example.com/v1beta1, Kind=" + strings.Repeat("Widget", 8), Waiting: failure,
				Load:             scheduler.Load{Workers: 100, Running: 100, Due: 100_000, Failing: 2, Counts: scheduler.Counts{Runs: 1e12, Needless: 1e12}},
				FailingPrimaries: []trc.Key{longest, {Namespace: "default", Name: "short"}}, PausedPrimaries: 12345, Workflow: nodes,
			}},
			Caches:   []health.Cache{{Cache: strings.Repeat("Widget in namespaces ", 10) + name, Objects: 1e9, Ahead: 1e6, Undecodable: 1e6}},
			Election: health.Election{Lease: name},
		},
		sources: []health.Source{{Controller: name[:200], Source: name, Kind: "v1, Kind=ConfigMap", Cluster: name, Problem: failure, Objects: 1e9}},
	}
	return serve(t, op, func(p *why.Pages) {
		began := time.Date(2020, 11, 26, 1, 2, 3, 0, time.UTC)
		for i := range 100 {
			r := timeline.Record{
				Causes:  []timeline.Cause{timeline.Resource{Source: "widget", Kind: "Widget", Namespace: longest.Namespace, Name: longest.Name, NewVersion: "123456789", Manager: name}},
				Started: began.Add(time.Duration(i) * time.Minute), Duration: time.Hour, Waited: time.Hour, ID: "4f3f6a2c-0000-4000-8000-000000000000", Nodes: states,
				Requests: []timeline.Request{{Text: "apply Widget " + longest.String(), Verb: "apply", Proof: timeline.Created}},
			}
			if i%3 > 0 {
				r.Outcome, r.Err, r.Stack = timeline.Panicked, failure, strings.Repeat("/a/folder/"+name+".go:1234\n", 40)
			}
			p.RunEnded(name[:200], longest, r)
		}
	})
}

// wideWorkflow returns a workflow with eight nodes in the middle of its three rows.
func wideWorkflow(name, failure string) (nodes []health.Node, states []timeline.Node) {
	nodes = append(nodes, health.Node{Name: "first"})
	last := health.Node{Name: name, Wave: 2, DependsOn: []string{"first"}}
	for i := range 8 {
		n := health.Node{Name: fmt.Sprint(name[:10*i+1], i), Wave: 1, DependsOn: []string{"first"}, Conditions: []string{"activation condition", "delete postcondition"}}
		nodes, last.DependsOn = append(nodes, n), append(last.DependsOn, n.Name)
	}
	nodes = append(nodes, last)
	all := []string{"Ready", "Failed", "NotReady", "Waiting", "Skipped", "Cancelled", "Deleting", "Deleted", "Inactive", "Left"}
	for i, n := range nodes {
		states = append(states, timeline.Node{Pass: "reconcile", Name: n.Name, State: all[i%len(all)], Because: name, Reason: failure, Err: failure})
	}
	return nodes, states
}

func serve(t *testing.T, op why.Operator, fill func(*why.Pages)) (url string) {
	t.Helper()
	pages, err := why.New(why.Options{PerPrimary: 100})
	noError(t, err)
	pages.Of(op)
	fill(pages)
	server := httptest.NewServer(pages.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections() // those of events
		server.Close()
	})
	return server.URL + why.Root
}
