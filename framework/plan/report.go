package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Action is what would become of an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Report is what an operator would change. The zero value is that of a plan without primaries. Its
// JSON form has all of it. It has no value of a Secret: see [Change].
type Report struct {
	// Controllers are the controllers, with the number of their primaries.
	Controllers Progress `json:"controllers"`
	// Changes are the objects that would be changed, sorted by cluster, kind and name.
	Changes []Change `json:"changes"`
	// Externals are the changes outside of the cluster that would be made.
	Externals []External `json:"externals,omitempty"`
	// Refused are the requests that cannot be planned. The plan is not complete if there are any.
	Refused []Refusal `json:"refused,omitempty"`
	// Failures are the runs that failed. The plan is not complete if there are any.
	Failures []Failure `json:"failures,omitempty"`
	// Unplanned are the primaries that had no run because the time was up.
	Unplanned []Writer `json:"unplanned,omitempty"`
	// Events is the number of Kubernetes events that would be published.
	Events int `json:"events,omitempty"`
}

// Change is an object that would be changed.
type Change struct {
	Action Action `json:"action"`
	// Cluster is the host of another cluster, empty for the operator's own.
	Cluster    string `json:"cluster,omitempty"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// By are the runs that would change it.
	By []Writer `json:"by"`
	// Diff has the lines of YAML that differ, below the fields that they are in. A line begins with
	// "+", "-" or a space. It is empty for a deletion. Of a Secret it has the keys of the data, and
	// *** for each value. Values of Secrets that the plan writes are replaced elsewhere too, if they
	// have at least 8 bytes.
	Diff string `json:"diff,omitempty"`
	// Notes say what is not exact, or what becomes of a deleted object.
	Notes []string `json:"notes,omitempty"`
}

// External is a change outside of the cluster.
type External struct {
	Writer
	What string `json:"what"`
}

// Refusal is a request that cannot be planned.
type Refusal struct {
	Writer
	What string `json:"what"`
}

// Failure is a run that failed.
type Failure struct {
	Writer
	Error string `json:"error"`
}

// ExitCode returns 1 if the plan is not complete, because of a failure, a refusal or the time; else
// 2 if anything would change, and 0 if not.
func (r *Report) ExitCode() int {
	switch {
	case len(r.Failures)+len(r.Refused)+len(r.Unplanned) > 0:
		return 1
	case len(r.Changes)+len(r.Externals) > 0:
		return 2
	}
	return 0
}

// String returns the report for people: a diff for each object, what is not planned, and a summary.
func (r *Report) String() string {
	var b strings.Builder
	for _, c := range r.Changes {
		c.write(&b)
	}
	for _, e := range r.Externals {
		fmt.Fprintf(&b, "would %s, by %s\n", e.What, e.Writer)
	}
	for _, refusal := range r.Refused {
		fmt.Fprintf(&b, "cannot plan: %s, by %s\n", refusal.What, refusal.Writer)
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "failed: %s: %s\n", f.Writer, f.Error)
	}
	for _, w := range r.Unplanned {
		fmt.Fprintf(&b, "not planned: %s\n", w)
	}
	count := map[Action]int{}
	for _, c := range r.Changes {
		count[c.Action]++
	}
	fmt.Fprintf(&b, "%d to create, %d to update, %d to delete; primaries: %s\n", count[Create], count[Update], count[Delete], r.Controllers)
	return b.String()
}

func (c *Change) write(b *strings.Builder) {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	if c.Cluster != "" {
		name += " on " + c.Cluster
	}
	by := make([]string, len(c.By))
	for i, w := range c.By {
		by[i] = w.String()
	}
	fmt.Fprintf(b, "%s %s %s, by %s\n", c.Action, c.Kind, name, strings.Join(by, ", "))
	for _, note := range c.Notes {
		fmt.Fprintf(b, "  # %s\n", note)
	}
	b.WriteString(c.Diff)
	b.WriteString("\n")
}

// report returns the report of what is planned so far.
func (p *planner) report() *Report {
	planned := p.overlay.of(func(identity) bool { return true })
	hidden := secretsOf(planned)
	r := &Report{Controllers: p.progress(), Changes: []Change{}}
	for _, e := range planned {
		if c, changes := p.change(e); changes {
			c.Diff = hidden.Replace(c.Diff)
			r.Changes = append(r.Changes, c)
		}
	}
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for name, keys := range p.waiting() {
		for _, key := range keys {
			r.Unplanned = append(r.Unplanned, Writer{Controller: name, Primary: strings.TrimPrefix(key.String(), "/")})
		}
	}
	slices.SortFunc(r.Unplanned, compareWriters)
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Externals, r.Refused, r.Failures, r.Events = slices.Clone(p.externals), slices.Clone(p.refused), slices.Clone(p.failures), p.events
	for i := range r.Externals {
		r.Externals[i].What = hidden.Replace(r.Externals[i].What)
	}
	for i := range r.Refused {
		r.Refused[i].What = hidden.Replace(r.Refused[i].What)
	}
	for i := range r.Failures {
		r.Failures[i].Error = hidden.Replace(r.Failures[i].Error)
	}
	// The externals of one run stay in their order.
	slices.SortStableFunc(r.Externals, func(a, b External) int { return compareWriters(a.Writer, b.Writer) })
	slices.SortStableFunc(r.Refused, func(a, b Refusal) int { return compareWriters(a.Writer, b.Writer) })
	slices.SortStableFunc(r.Failures, func(a, b Failure) int { return compareWriters(a.Writer, b.Writer) })
	return r
}

// change describes what is planned for an object. changes is false if that is nothing.
func (p *planner) change(e state) (c Change, changes bool) {
	o := unstructured.Unstructured{Object: e.now}
	c = Change{Action: Update, Namespace: e.namespace, Name: e.name, Notes: e.notes, By: e.writers}
	if e.cluster != p.local {
		c.Cluster = e.cluster
	}
	slices.SortFunc(c.By, compareWriters)
	switch {
	case e.stored == nil && e.now == nil: // created and deleted again
		return c, false
	case e.stored == nil:
		c.Action = Create
	case e.now == nil:
		c.Action, o.Object = Delete, e.stored
	case o.GetDeletionTimestamp() != nil && timestampIn(e.stored) == nil:
		c.Action = Delete
		if of := o.GetFinalizers(); len(of) > 0 {
			c.Notes = append(c.Notes, "it stays until its finalizers are removed: "+strings.Join(of, ", "))
		}
	case same(e.stored, e.now):
		return c, false
	}
	c.APIVersion, c.Kind = o.GetAPIVersion(), o.GetKind()
	if e.now != nil {
		c.Diff = difference(e.stored, e.now)
	}
	return c, true
}
