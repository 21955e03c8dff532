package timeline

import (
	"fmt"
	"time"
)

// Cause is the reason why a key became due. The set is closed: [Resource], [Timer], [Retry],
// [MaxInterval], [External], [Manual] and [Overflow].
type Cause interface {
	fmt.Stringer
	cause()
}

// Action is what happened to a resource.
type Action int

// The actions.
const (
	Added Action = iota
	Updated
	Deleted
)

// String returns "added", "updated" or "deleted".
func (a Action) String() string {
	switch a {
	case Added:
		return "added"
	case Updated:
		return "updated"
	case Deleted:
		return "deleted"
	}
	return fmt.Sprintf("Action(%d)", int(a))
}

// Resource is a change of an API object, as readers of the store saw it. Source separates changes
// of the primary from changes of its secondaries.
type Resource struct {
	// Source is the name of the event source that observed the change.
	Source string
	Action Action
	// Kind, Namespace and Name are the object's coordinates; Namespace is empty for cluster-scoped
	// ones.
	Kind, Namespace, Name string
	// Cluster is the cluster of the object, empty for the operator's own.
	Cluster string
	// UID is the UID of the object. A replaced object is a deletion followed by an addition.
	UID string
	// OldVersion and NewVersion are resourceVersions. OldVersion is empty for an addition, NewVersion
	// for a deletion.
	OldVersion, NewVersion string
	// Manager is the field manager that wrote the object last, if the cache has it; empty for a
	// deletion.
	Manager string
	// Fields are the paths of the fields that an update changed, for people, and never their values.
	// Of a Secret, only the first part of each path is named. Empty unless somebody reads them: see
	// observe.FieldObserver.
	Fields string
	// Entered is set for an update that made the object a secondary of this key: earlier changes of it
	// were not causes of this key.
	Entered bool
	// Requested is set for an update of the primary by which somebody asks for a run: see
	// framework.RunRequested.
	Requested bool
}

// Timer is another run that the last one asked for, or that follows because the last one was
// superseded or refused.
type Timer struct {
	// After is the requested or imposed delay.
	After time.Duration
}

// Retry is another attempt after a failure.
type Retry struct {
	// Attempt counts from 1.
	Attempt int
}

// MaxInterval is the fail-safe run of a key for which nothing else has happened.
type MaxInterval struct {
	// Interval is the time that has passed, jitter included.
	Interval time.Duration
}

// External is an event from outside the API server.
type External struct {
	// Source is the name of the event source. ID is the source's description of the event.
	Source, ID string
}

// Manual is a run that a person or a program asked for by name.
type Manual struct {
	// By names who asked, for the reader of the record.
	By string
}

// Overflow stands for causes that were too many to keep one by one.
type Overflow struct {
	// Count is the number of these causes.
	Count int
}

func (Resource) cause()    {}
func (Timer) cause()       {}
func (Retry) cause()       {}
func (MaxInterval) cause() {}
func (External) cause()    {}
func (Manual) cause()      {}
func (Overflow) cause()    {}

// nameOf returns the name of an object, with its namespace and its cluster if it has any.
func nameOf(namespace, name, cluster string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	if cluster != "" {
		name += " at " + cluster
	}
	return name
}

// String returns one line, as in "ConfigMap default/hello updated 41→57".
func (c Resource) String() string {
	name := nameOf(c.Namespace, c.Name, c.Cluster)
	by := ""
	if c.Manager != "" {
		by = " by " + c.Manager
	}
	if c.Requested {
		by += ", which asks for a run"
	}
	switch c.Action {
	case Added:
		return fmt.Sprintf("%s %s added %s%s", c.Kind, name, c.NewVersion, by)
	case Deleted:
		return fmt.Sprintf("%s %s deleted %s", c.Kind, name, c.OldVersion)
	default:
		if c.Fields != "" {
			by += ": " + c.Fields
		}
		return fmt.Sprintf("%s %s updated %s→%s%s", c.Kind, name, c.OldVersion, c.NewVersion, by)
	}
}

// String returns one line.
func (c Timer) String() string { return fmt.Sprintf("rescheduled after %v", c.After) }

// String returns one line.
func (c Retry) String() string { return fmt.Sprintf("retry %d", c.Attempt) }

// String returns one line.
func (c MaxInterval) String() string { return fmt.Sprintf("max interval %v", c.Interval) }

// String returns one line, as in "external builds 17".
func (c External) String() string {
	if c.ID == "" {
		return "external " + c.Source
	}
	return fmt.Sprintf("external %s %s", c.Source, c.ID)
}

// String returns one line.
func (c Manual) String() string { return "manual by " + c.By }

// String returns one line.
func (c Overflow) String() string { return fmt.Sprintf("%d more", c.Count) }
