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

// ErrStandby is returned by writes while another instance of the operator leads, and by writes of a
// run that began before the lease was lost.
var ErrStandby = write.ErrStandby

// Defaults of a zero [LeaderElection]. They are those of the core components of Kubernetes.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// serviceAccountNamespace is the file in which a Pod finds its own namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ElectionMode is whether the instances of an operator elect a leader.
type ElectionMode int

// The modes of leader election.
const (
	// InCluster elects a leader if the process runs in a Pod with a service account, and none
	// elsewhere.
	InCluster ElectionMode = iota
	// Always elects a leader. Outside of a cluster, Namespace is required.
	Always
	// Never means that there is no election. Run only one instance then.
	Never
)

// String returns the mode's name.
func (m ElectionMode) String() string {
	if m < InCluster || m > Never {
		return fmt.Sprintf("ElectionMode(%d)", int(m))
	}
	return [...]string{"InCluster", "Always", "Never"}[m]
}

// LeaderElection configures how several instances of an operator elect the one that works, by a
// Lease of Kubernetes. The zero value is the documented default. The other instances stand by:
// their caches are filled, no run starts, and every write fails with [ErrStandby], including writes
// through [Operator.Writer].
//
// An instance that cannot renew the lease in time cancels its runs, refuses writes, and stands by
// again. The process continues. Writes end by the clock of the process: RenewDeadline after the
// start of the last successful renewal, which is LeaseDuration−RenewDeadline before another
// instance can lead. Neither a pause of the process nor an unreachable API server extends this. On
// Linux, suspending the machine does not extend it either, as for a snapshot of a virtual machine.
// On other platforms the clock may stop meanwhile, which extends the term.
//
// A request in flight at that time is aborted. If the network delivers it even later, only the
// precondition of the request itself protects against it. Kubernetes events that were queued before
// may still be sent; no new ones are queued.
//
// The service account needs the rights to get, create and update leases (coordination.k8s.io) in
// the namespace. [Operator.Run] reports missing rights at the start.
type LeaderElection struct {
	// Mode is whether there is an election. Default: [InCluster].
	Mode ElectionMode
	// Name of the Lease. Default: [OperatorOptions.Name]. Two operators with the same Lease exclude
	// each other.
	Name string
	// Namespace of the Lease. Default: that of the Pod. Required outside of a cluster.
	Namespace string
	// Identity of this instance. Default: the host name and a random UUID. It must be unique among all
	// instances.
	Identity string
	// LeaseDuration is how long other instances wait after the last renewal that they saw. Default 15
	// s. It must be whole seconds, at least one. If it is too high, no instance works for long after a
	// crash.
	LeaseDuration time.Duration
	// RenewDeadline is how long the leader may write after its last renewal. Default 10 s. It must be
	// shorter than LeaseDuration, by the time that a request in flight may take. If it is too low, a
	// slow API server costs the lease.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two attempts to acquire or renew the lease. Default 2 s. It must
	// be less than RenewDeadline/1.2. If it is too low, it loads the API server.
	RetryPeriod time.Duration
}

// inferNamespace returns the namespace of the Pod that the process runs in. It is empty outside of
// a cluster.
func inferNamespace(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// resolved returns the options with their defaults, for the named operator. namespace is that of
// the Pod, empty outside of a cluster. The resulting Mode is Always or Never.
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

// lease returns the options of the Lease.
func (o LeaderElection) lease() lease.Options {
	return lease.Options{
		Name: o.Name, Namespace: o.Namespace, Identity: o.Identity,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
	}
}

// validate reports every invalid resolved option. It checks names only if there is an election.
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
