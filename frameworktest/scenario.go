package frameworktest

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
)

// Scenario is an operator with a story of its users: what they do, in which order. The same
// scenario runs in virtual time ([Everywhere], [Start]) and on a real API server ([OnServer],
// [Run]).
//
// A scenario is used by several lives at once. Its functions must not change what they share, such
// as the objects that a story creates.
type Scenario struct {
	// CRDs are folders with YAML files of CustomResourceDefinitions, separated by commas. Empty if the
	// operator uses built-in kinds alone.
	CRDs string
	// Rules evaluates the CEL rules of definitions (x-kubernetes-validations) in virtual time: the
	// function of the same name in package frameworktest/cel, which is a module of its own because CEL
	// is large. Default: rules are ignored, and the test's log says so.
	Rules func(schema []byte) (check func(o, old map[string]any) field.ErrorList, err error)
	// Scheme has the Go types of all objects. Default: client-go's.
	Scheme *runtime.Scheme
	// Register registers the controllers with an operator. It is called once for each process, and
	// must not share state between processes. Either it or RegisterWith is required.
	Register func(op *framework.Operator) error
	// RegisterWith does so for operators that work with something outside of the cluster.
	RegisterWith func(op *framework.Operator, p *Process) error
	// Operator are further options of the operator. The scheme, the logger, the grace and the leader
	// election are the kit's.
	Operator framework.OperatorOptions

	// Story is what users do. It must leave nothing that goes on by itself: at its end the operator
	// comes to rest. Required but for [Start] and [Run].
	Story func(w *World)
	// End, if set, checks what there is at rest after the story, in each life and for each copy of the
	// story. A story that is wrong without any fault is found by it, also in random walks.
	End func(w *World)
	// Always, if set, must hold at every version that there ever was, and after each change of an
	// [External].
	Always func(v Version) error
	// Mask, if set, changes what is compared of two lives, at each Rest and at the end. It gets a copy
	// of each object, and drops what may differ. Versions, UIDs, times of the status and random
	// suffixes of names never count.
	Mask func(o *unstructured.Unstructured)
	// MaskItem, if set, does so for the items of the [External] of that name.
	MaskItem func(system string, item *Item)
	// Points are the kinds of points at which the story is repeated. Default: [AllPoints].
	Points []Point
	// Cluster plays what controllers of Kubernetes and kubelets do, beside garbage collection: it
	// rolls out Deployments, runs Jobs and ends Pods in deletion. Default: [Playing].
	Cluster Cluster

	seeds int // of random walks
	first int // the first seed
}

// Cluster is what else there is in a world in virtual time.
type Cluster int

const (
	// Playing means that Deployments, StatefulSets, DaemonSets, Jobs and Pods get a status, and Pods
	// in deletion end.
	Playing Cluster = iota
	// Bare means that there is an API server and garbage collection, and nothing else.
	Bare
)

// Random returns a scenario of n random walks in place of one life for each point: up to three
// copies of the story at once, in namespaces of their own, while requests fail, watches lag and
// break, and the operator dies. Each walk follows from its seed, from 1 on. The users of a walk do
// not always wait: a story whose end depends on the order in which its objects are seen does not
// always come to the same end, and is none for walks.
func (s Scenario) Random(n int) Scenario {
	s.seeds, s.first = n, 1
	return s
}

// Point is a kind of fault at a kind of point.
type Point int

const (
	// CrashBefore is the death of the process before a write.
	CrashBefore Point = iota
	// CrashCommitted is its death once the server has stored the write, before the answer.
	CrashCommitted
	// CrashAnswered is its death after the answer.
	CrashAnswered
	// LostAnswer loses the answer to a write that was carried out.
	LostAnswer
	// Refused429, Refused500 and Refused409 are refusals of a write with that code.
	Refused429
	Refused500
	Refused409
	// Failed500 is a server that fails after it has carried out the write.
	Failed500
	// Gap ends all watches after a write, with 410 for those that resume.
	Gap
	// Rival cuts the process off after a write. Another instance takes over by leader election, and
	// the first comes back later.
	Rival
	// StaleServer is the death of the process after a commit. The next one meets an API server whose
	// cache is 30 s old.
	StaleServer
	// Late delivers what watches say 3 s late, and then three minutes late, in lives of their own: all
	// watches, and those of each resource alone, so that events come in another order.
	Late
	// Restart replaces the process at each Rest of the story, and after the story. The new one must
	// find nothing to do: what it changes, the last one has missed, or each run writes anew, such as
	// the time of the run. [Scenario].Mask hides what may be new.
	Restart
	// Idle lets an hour pass at each Rest of the story, in which nothing must be written.
	Idle
	// FailedRead is the failure of a read that no cache answers, with 500: a get, a list, or a read of
	// an [External]. The first lists of the operator's caches are among them. Of more than 50 reads in
	// a story, 50 are tried.
	FailedRead
	// SlowAnswer lets the answer to a write that was carried out take 3 s. What happens meanwhile, the
	// events of the write among it, comes before the answer, while the run waits for it.
	SlowAnswer
)

var pointNames = [...]string{
	"crash-before", "crash-committed", "crash-answered", "lost-answer", "refused-429", "refused-500", "refused-409", "failed-500",
	"gap", "rival", "stale-server", "late", "restart", "idle", "failed-read", "slow-answer",
}

// String returns the name of the point, as in "crash-before".
func (p Point) String() string {
	if p < 0 || int(p) >= len(pointNames) {
		return fmt.Sprintf("Point(%d)", int(p))
	}
	return pointNames[p]
}

// AllPoints returns all points.
func AllPoints() []Point {
	all := make([]Point, len(pointNames))
	for i := range all {
		all[i] = Point(i)
	}
	return all
}

// validate returns every problem of a scenario, which gets its defaults.
func (s *Scenario) validate(story bool) error {
	var errs []error
	bad := func(field, why string) { errs = append(errs, fmt.Errorf("frameworktest: Scenario: %s %s", field, why)) }
	if (s.Register == nil) == (s.RegisterWith == nil) {
		bad("Register", "or RegisterWith is required, and not both")
	}
	if story && s.Story == nil {
		bad("Story", "is required")
	}
	if s.Cluster < Playing || s.Cluster > Bare {
		bad("Cluster", fmt.Sprintf("%d must be Playing or Bare", int(s.Cluster)))
	}
	for _, p := range s.Points {
		if p < 0 || int(p) >= len(pointNames) {
			bad("Points", fmt.Sprintf("%d is no point", int(p)))
		}
	}
	if s.seeds < 0 {
		bad("Random", fmt.Sprintf("%d must not be negative", s.seeds))
	}
	if s.Scheme == nil {
		s.Scheme = scheme.Scheme
	}
	if s.Points == nil {
		s.Points = AllPoints()
	}
	s.Points = slices.Compact(slices.Sorted(slices.Values(s.Points)))
	return errors.Join(errs...)
}

// register registers the controllers for a process.
func (s *Scenario) register(op *framework.Operator, p *Process) error {
	if s.RegisterWith != nil {
		return s.RegisterWith(op, p)
	}
	return s.Register(op)
}
