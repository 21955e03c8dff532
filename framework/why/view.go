package why

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/timeline"
)

// clusterScoped stands for the namespace of what has none, in paths.
const clusterScoped = "-"

// Run is a run as it is shown. Times are in seconds.
type Run struct {
	Controller string `json:"controller"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Started is when the run began. Before that, it waited for so long, of which it was queued
	// behind other primaries for the last part. Gate is what held it back.
	Started  time.Time `json:"started"`
	Duration float64   `json:"duration"`
	Waited   float64   `json:"waited"`
	Queued   float64   `json:"queued"`
	Gate     string    `json:"gate,omitempty"`
	Attempt  int       `json:"attempt,omitempty"`
	Outcome  string    `json:"outcome"`
	// Excused is set if the run itself did not cause the failure. Final is set if no retry can mend
	// it.
	Excused bool `json:"excused,omitempty"`
	Final   bool `json:"final,omitempty"`

	Causes   []string  `json:"causes"`
	Requests []Request `json:"requests,omitempty"`
	Nodes    []Node    `json:"nodes,omitempty"`
	// Fights are fights over fields that the run was part of. Loop is the loop that it belongs to.
	Fights     []string `json:"fights,omitempty"`
	Loop       string   `json:"loop,omitempty"`
	ReadsAhead int      `json:"readsAhead,omitempty"`
	Err        string   `json:"error,omitempty"`
	Stack      string   `json:"stack,omitempty"`
	// Next is the time until the next run that is certain, 0 if there is none.
	Next float64 `json:"next,omitempty"`
	ID   string  `json:"reconcileID,omitempty"`
}

// Request is a write request of a run, with what its answer proved.
type Request struct {
	Text  string `json:"text"`
	Proof string `json:"proof"`
}

// Node is a node of a workflow after a run. Start is the time from the start of the run to that of
// the node, in seconds, and negative if the node was not reached.
type Node struct {
	Pass     string  `json:"pass"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Because  string  `json:"because,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Err      string  `json:"error,omitempty"`
	Start    float64 `json:"start"`
	Duration float64 `json:"duration"`
}

// Path returns the path of the page of the run's primary.
func (r Run) Path() string { return pathOf(r.Controller, r.Namespace, r.Name) }

func pathOf(controller, namespace, name string) string {
	return Root + controller + "/" + cmp.Or(namespace, clusterScoped) + "/" + url.PathEscape(name)
}

// Key returns namespace/name.
func (r Run) Key() string { return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/") }

// IsBad reports whether the run failed by itself.
func (r Run) IsBad() bool { return r.Err != "" && !r.Excused }

func runOf(controller string, primary types.NamespacedName, r timeline.Record) Run {
	v := Run{
		Controller: controller, Namespace: primary.Namespace, Name: primary.Name, Started: r.Started,
		Duration: r.Duration.Seconds(), Waited: r.Waited.Seconds(), Queued: r.Queued.Seconds(), Gate: r.Gate.String(), Attempt: r.Attempt,
		Outcome: r.Outcome.String(), Excused: r.Excused, Final: r.Final, ReadsAhead: r.ReadsAhead, Err: r.Err, Stack: r.Stack,
		Next: r.Next.Seconds(), ID: r.ID, Causes: []string{},
	}
	for _, cause := range r.Causes {
		v.Causes = append(v.Causes, cause.String())
	}
	for _, q := range r.Requests {
		v.Requests = append(v.Requests, Request{q.Text, q.Proof.String()})
	}
	for _, f := range r.Fights {
		v.Fights = append(v.Fights, f.String())
	}
	if r.Loop != nil {
		v.Loop = r.Loop.String()
	}
	for _, n := range r.Nodes {
		node := Node{n.Pass, n.Name, n.State, n.Because, n.Reason, n.Err, -1, n.Duration.Seconds()}
		if !n.Started.IsZero() {
			node.Start = max(0, n.Started.Sub(r.Started).Seconds())
		}
		v.Nodes = append(v.Nodes, node)
	}
	return v
}

// Overview is the page of the operator.
type Overview struct {
	// Problems is the text of framework.Operator.Ready, empty if all is well.
	Problems    string       `json:"problems,omitempty"`
	Lease       string       `json:"lease,omitempty"`
	Leading     bool         `json:"leading"`
	Controllers []Controller `json:"controllers"`
	Sources     []Source     `json:"sources"`
	Caches      []Cache      `json:"caches"`
	// Records is the number of runs that are kept, Bytes what they take, as estimated.
	Records int `json:"records"`
	Bytes   int `json:"bytes"`
}

// Controller is a controller on the page of the operator.
type Controller struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Waiting string   `json:"waiting,omitempty"`
	Workers int      `json:"workers"`
	Running int      `json:"running"`
	Due     int      `json:"due"`
	Keys    int      `json:"keys"`
	Runs    uint64   `json:"runs"`
	Own     uint64   `json:"ownEvents"`
	Paused  int      `json:"paused,omitempty"`
	Failing int      `json:"failing,omitempty"`
	Longest float64  `json:"longestRunning,omitempty"`
	Names   []Failed `json:"failingPrimaries,omitempty"`
}

// Path returns the path of the controller's page.
func (c Controller) Path() string { return Root + c.Name }

// Failed is a primary whose last run failed.
type Failed struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Path      string `json:"path"`
}

// Source is a source on the page of the operator. Silent is the time since its watches delivered
// anything, in seconds.
type Source struct {
	Controller string  `json:"controller"`
	Source     string  `json:"source"`
	Kind       string  `json:"kind,omitempty"`
	Cluster    string  `json:"cluster,omitempty"`
	Synced     bool    `json:"synced"`
	Objects    int     `json:"objects"`
	Silent     float64 `json:"silent,omitempty"`
	Problem    string  `json:"problem,omitempty"`
}

// Cache is a cache on the page of the operator.
type Cache struct {
	Cache       string `json:"cache"`
	Objects     int    `json:"objects"`
	Ahead       int    `json:"ahead,omitempty"`
	Undecodable int    `json:"undecodable,omitempty"`
}

func overviewOf(op Operator, now time.Time) Overview {
	o := op.Occupancy()
	v := Overview{Lease: o.Election.Lease, Leading: o.Election.Leading, Controllers: []Controller{}, Sources: []Source{}, Caches: []Cache{}}
	if err := op.Ready(); err != nil {
		v.Problems = err.Error()
	}
	for _, c := range o.Controllers {
		v.Controllers = append(v.Controllers, controllerOf(c))
	}
	for _, h := range op.Health() {
		v.Sources = append(v.Sources, sourceOf(h, now))
	}
	for _, c := range o.Caches {
		v.Caches = append(v.Caches, Cache{c.Cache, c.Objects, c.Ahead, c.Undecodable})
	}
	return v
}

func controllerOf(c health.Controller) Controller {
	v := Controller{
		Name: c.Name, Kind: c.Kind, Waiting: c.Waiting, Workers: c.Workers, Running: c.Running, Due: c.Due, Keys: c.Keys,
		Runs: c.Runs, Own: c.Needless, Paused: c.PausedPrimaries, Failing: c.Failing, Longest: c.Longest.Seconds(),
	}
	for _, key := range c.FailingPrimaries {
		v.Names = append(v.Names, Failed{key.Namespace, key.Name, pathOf(c.Name, key.Namespace, key.Name)})
	}
	return v
}

func sourceOf(h health.Source, now time.Time) Source {
	v := Source{
		Controller: h.Controller, Source: h.Source, Kind: h.Kind, Cluster: h.Cluster, Synced: h.Synced, Objects: h.Objects, Problem: h.Problem,
	}
	if silent, known := h.Silence(now); known {
		v.Silent = silent.Round(time.Second).Seconds()
	}
	return v
}

// WorkflowNode is a node of a controller's workflow. Only the page of a primary has states: those
// after the newest run of the workflow that is kept.
type WorkflowNode struct {
	health.Node
	State   string `json:"state,omitempty"`
	Because string `json:"because,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// workflowOf returns the nodes of a workflow with their states in the newest run that has any, and
// when that run began.
func workflowOf(nodes []health.Node, runs []Run) (all []WorkflowNode, of time.Time) {
	last := map[string]Node{}
	if i := slices.IndexFunc(runs, func(r Run) bool { return len(r.Nodes) > 0 }); i >= 0 {
		of = runs[i].Started
		for _, n := range runs[i].Nodes { // later passes come later
			last[n.Name] = n
		}
	}
	for _, n := range nodes {
		in := last[n.Name]
		all = append(all, WorkflowNode{n, in.State, in.Because, cmp.Or(in.Err, in.Reason)})
	}
	return all, of
}

// OfController is the page of a controller.
type OfController struct {
	Controller string `json:"controller"`
	// Now is what the operator says of the controller, nil before [Pages.Of].
	Now *Controller `json:"now,omitempty"`
	// Workflow are the nodes of its workflow in order of dependency.
	Workflow []WorkflowNode `json:"workflow,omitempty"`
	// Contests are the newest runs of primaries that fight or loop, one of each. Newest, Slowest and
	// Failed are runs that are kept, Often the primaries that had most of them.
	Contests []Run   `json:"contests,omitempty"`
	Newest   []Run   `json:"newest"`
	Slowest  []Run   `json:"slowest"`
	Failed   []Run   `json:"failed"`
	Often    []Often `json:"often"`
}

// Often is how many runs of a primary are kept, and the time from the first to the last, in
// seconds.
type Often struct {
	Namespace string  `json:"namespace,omitempty"`
	Name      string  `json:"name"`
	Path      string  `json:"path"`
	Runs      int     `json:"runs"`
	Within    float64 `json:"within"`
}

// listed is how many runs each list of a controller's page has.
const listed = 20

func ofController(name string, entries []*entry) OfController {
	v := OfController{Controller: name, Newest: []Run{}, Slowest: []Run{}, Failed: []Run{}, Often: oftenOf(entries)}
	show := func(some []*entry) []Run {
		runs := []Run{}
		for _, e := range some[:min(listed, len(some))] {
			runs = append(runs, runOf(e.of.controller, e.of.primary, e.record))
		}
		return runs
	}
	v.Newest = show(entries)
	failed := slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool { return e.record.Err == "" || e.record.Excused })
	v.Failed = show(failed)
	if contests := contestsIn(entries); len(contests) > 0 {
		v.Contests = show(contests)
	}
	slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(b.record.Duration, a.record.Duration) })
	v.Slowest = show(entries)
	return v
}

// contestsIn returns the newest entry of each primary that was in a fight or a loop. The entries
// are newest first.
func contestsIn(entries []*entry) (found []*entry) {
	seen := map[id]bool{}
	for _, e := range entries {
		if (len(e.record.Fights) > 0 || e.record.Loop != nil) && !seen[e.of] {
			seen[e.of] = true
			found = append(found, e)
		}
	}
	return found
}

// oftenOf counts runs by primary. The entries are newest first.
func oftenOf(entries []*entry) []Often {
	byID, last := map[id]*Often{}, map[id]time.Time{}
	for _, e := range entries {
		o := byID[e.of]
		if o == nil {
			key := e.of.primary
			o = &Often{Namespace: key.Namespace, Name: key.Name, Path: pathOf(e.of.controller, key.Namespace, key.Name)}
			byID[e.of], last[e.of] = o, e.record.Started
		}
		o.Runs++
		o.Within = last[e.of].Sub(e.record.Started).Seconds()
	}
	all := []Often{}
	for _, o := range byID {
		if o.Runs > 1 {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all, func(a, b Often) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Within, b.Within), strings.Compare(a.Path, b.Path))
	})
	return all[:min(listed, len(all))]
}

// OfPrimary is the page of a primary: its runs, newest first.
type OfPrimary struct {
	Controller string `json:"controller"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Runs       []Run  `json:"runs"`
	// Workflow are the nodes of the controller's workflow in order of dependency, with their states
	// after the run that began at WorkflowRun.
	Workflow    []WorkflowNode `json:"workflow,omitempty"`
	WorkflowRun time.Time      `json:"workflowRun,omitzero"`
}
