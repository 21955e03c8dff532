package timeline

import (
	"fmt"
	"strings"
)

// Fight is a contest over fields of an object: a run set them back to what it had set before, again
// and again, because another writer keeps changing them.
type Fight struct {
	// Kind, Namespace and Name are the object's coordinates; Namespace is empty for cluster-scoped
	// ones. Cluster is empty for the operator's own cluster.
	Kind, Namespace, Name, Cluster string
	// Fields are the paths of the fields, for people, and never their values. Of a Secret, only the
	// first part of each path is named.
	Fields string
	// Times is how often the run's controller has set one of them back in the last ten minutes, at
	// most 100.
	Times int
	// Manager is the field manager of the run. Other is that of the other writer. It is empty if it is
	// not known: nothing tells who has removed a field.
	Manager, Other string
	// Rival is the other writer if it is a run of the same operator, as "controller x for
	// namespace/name". Empty otherwise.
	Rival string
}

// String returns one line, as in "kubectl-edit and webpage keep changing data.html of ConfigMap
// default/hello: set back 3 times".
func (f Fight) String() string {
	other := f.Other
	switch {
	case f.Rival != "":
		other = f.Rival
	case other == "":
		other = "another client"
	}
	name := nameOf(f.Namespace, f.Name, f.Cluster)
	return fmt.Sprintf("%s and %s keep changing %s of %s %s: set back %d times", other, f.Manager, f.Fields, f.Kind, name, f.Times)
}

// Chain is a chain of runs that nothing but runs of the operator has caused.
type Chain struct {
	// Runs is how many there were in a row, this one included. A record has no loop if there were
	// fewer than nine.
	Runs int
	// Controllers are the controllers of these runs.
	Controllers []string
}

// String returns one line, as in "10 runs in a row that nothing but runs of a and b has caused".
func (c Chain) String() string {
	return fmt.Sprintf("%d runs in a row that nothing but runs of %s has caused", c.Runs, strings.Join(c.Controllers, " and "))
}
