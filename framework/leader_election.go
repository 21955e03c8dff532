package framework

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/write"
)

// ErrStandby is what writes return while another instance of the operator leads, and those of a run that
// began before the lease was lost.
var ErrStandby = write.ErrStandby

// Defaults of a zero [LeaderElection], those of the core components of Kubernetes.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// serviceAccountNamespace is where a Pod finds the namespace that it runs in.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ElectionMode says whether instances of an operator elect a leader.
type ElectionMode int

// The modes of leader election.
const (
	// InCluster elects one if the process runs in a Pod with a service account, and none elsewhere.
	InCluster ElectionMode = iota
	// Always elects one; outside of a cluster, Namespace is required.
	Always
	// Never elects none: there must not be two instances then.
	Never
)

// String returns the mode's name.
func (m ElectionMode) String() string {
	if m < InCluster || m > Never {
		return fmt.Sprintf("ElectionMode(%d)", int(m))
	}
	return [...]string{"InCluster", "Always", "Never"}[m]
}

// LeaderElection configures how several instances of an operator agree on the one that works, by a Lease of
// Kubernetes. The others stand by: their caches are filled, nothing is run, and every write is refused with
// [ErrStandby], also those of [Operator.Writer]. The zero value is the documented default.
//
// An instance that cannot renew the lease in time ends the contexts of its runs, refuses writes, and stands
// by again; the process goes on. Writes end by the clock of the process, RenewDeadline after the begin of
// the last renewal that succeeded, LeaseDuration−RenewDeadline before another can lead: neither a pause of
// the process nor a lost API server prolongs that, nor, on Linux, that the machine is suspended, as a virtual one is for
// a snapshot. On other platforms the clock may stand still meanwhile, and the term with it. A request that has left by then is broken off; what the
// network delivers even later is not known to anybody, and only its own precondition guards it. Kubernetes
// events are no writes in this sense.
//
// The service account needs the rights to get, create and update leases (coordination.k8s.io) in the
// namespace; [Operator.Run] says at the start what is missing.
type LeaderElection struct {
	// Mode is whether there is an election. Default: in a cluster.
	Mode ElectionMode
	// Name of the Lease. Default: OperatorOptions.Name. Two operators of the same name in one namespace
	// exclude each other.
	Name string
	// Namespace of the Lease. Default: that of the Pod.
	Namespace string
	// Identity of this instance, unique among all. Default: the host's name and a random UUID.
	Identity string
	// LeaseDuration is how long the others wait after the last renewal that they saw. Default 15 s, in whole
	// seconds. Too high, and nobody works for long after a crash.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader may write after its last renewal. Default 10 s; it must be shorter
	// than LeaseDuration by what a request on its way may take. Too low, and a slow API server costs the lease.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts to get or renew the lease. Default 2 s; it must be less
	// than RenewDeadline/1.2. Too low burdens the API server.
	RetryPeriod time.Duration
}

// inferNamespace reads the namespace of the Pod that the process runs in; empty outside of a cluster.
func inferNamespace(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// resolved returns the options with their defaults, for an operator of a name in a namespace (empty outside
// of a cluster). Its Mode is Always or Never.
func (o LeaderElection) resolved(operator, namespace string) LeaderElection {
	if o.Mode == InCluster {
		if o.Mode = Never; namespace != "" {
			o.Mode = Always
		}
	}
	if o.Name == "" {
		o.Name = operator
	}
	if o.Namespace == "" {
		o.Namespace = namespace
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = operator
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = DefaultRenewDeadline
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = DefaultRetryPeriod
	}
	return o
}

// lease is what the lease is held by.
func (o LeaderElection) lease() lease.Options {
	return lease.Options{
		Name: o.Name, Namespace: o.Namespace, Identity: o.Identity,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
	}
}

// validate names every resolved option that makes no sense. Names do not matter where there is no election.
func (o LeaderElection) validate() error {
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("framework: OperatorOptions: LeaderElection.%s %q: %s", field, fmt.Sprint(value), why))
	}
	if o.Mode < InCluster || o.Mode > Never {
		bad("Mode", int(o.Mode), "must be InCluster, Always or Never")
	}
	if o.LeaseDuration < time.Second || o.LeaseDuration%time.Second != 0 {
		bad("LeaseDuration", o.LeaseDuration, "must be whole seconds, at least one")
	}
	if o.RenewDeadline <= 0 || o.RenewDeadline >= o.LeaseDuration {
		bad("RenewDeadline", o.RenewDeadline, fmt.Sprintf("must be positive and shorter than LeaseDuration, %v", o.LeaseDuration))
	}
	if o.RetryPeriod <= 0 || o.RetryPeriod*6/5 >= o.RenewDeadline {
		bad("RetryPeriod", o.RetryPeriod, fmt.Sprintf("must be positive, and 1.2 times it shorter than RenewDeadline, %v", o.RenewDeadline))
	}
	if o.Mode != Always {
		return errors.Join(errs...)
	}
	if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
		bad("Name", o.Name, "it defaults to OperatorOptions.Name: "+strings.Join(problems, "; "))
	}
	if o.Namespace == "" {
		bad("Namespace", o.Namespace, "must be set outside of a cluster")
	} else if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		bad("Namespace", o.Namespace, strings.Join(problems, "; "))
	}
	return errors.Join(errs...)
}
