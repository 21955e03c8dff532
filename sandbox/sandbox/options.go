package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// NoNodes is the value of [Options.Nodes] for a control plane without nodes.
const NoNodes = -1

const (
	maxNodes            = 5000
	maxAPIServers       = 9
	defaultStartTimeout = 90 * time.Second
	defaultStopTimeout  = 20 * time.Second
)

// Options say what kind of control plane [Start] boots. The zero value is a whole
// one with a single simulated node, whose data vanish when it stops.
type Options struct {
	// Binary is the sandbox program to run the components with. Default "": see
	// [FindBinary].
	Binary string

	// Minimal boots only etcd and kube-apiserver: quicker and smaller, but nothing
	// acts on objects (no pods run, no garbage is collected, namespaces do not
	// finish terminating).
	Minimal bool

	// Nodes is the number of simulated nodes, at most 5000. 0 means 1; [NoNodes]
	// means none, so that pods stay pending until you create a node yourself.
	// Must be 0 with Minimal.
	Nodes int

	// Stages are files with kwok Stage objects (YAML). If there are any they
	// replace the default stages of pods, under which a pod is Ready at once and
	// gone as soon as it is deleted. The stages of nodes stay. Not with Minimal.
	Stages []string

	// APIServers is the number of kube-apiservers on the one etcd, at most 9, each
	// with a kubeconfig of its own. 0 means 1. The controllers use the first.
	APIServers int

	// Port is the port of the first kube-apiserver on 127.0.0.1. 0 means a free
	// one. All other ports are always free ones.
	Port int

	// Data is a folder that keeps the cluster's state across runs. It is created if
	// it is missing, and refused if it is in use for longer than a killed owner's
	// clean-up may take (5 s), was written by another version of
	// Kubernetes, or holds something else. Default "": a temporary folder that is
	// removed at the end.
	Data string

	// Kubeconfig is the file to write the administrator's kubeconfig to; a further
	// kube-apiserver number N has the same name with "-N" appended. The file is
	// removed at the end. An existing file is refused if it is not a sandbox's, or is
	// that of one that runs.
	// Default "": a file in the temporary folder.
	Kubeconfig string

	// AuditLog is the file that every request is logged to as a line of JSON, with
	// the request and response bodies of writes except those of Secrets and tokens.
	// It is appended to and not removed. Further kube-apiservers append "-N" to the
	// name. Default "": no audit log.
	AuditLog string

	// Logs is a folder for the components' logs, which stays. Logs of an earlier run
	// are appended to. Default "": in the temporary folder.
	Logs string

	// FeatureGates switches Kubernetes' feature gates by name. Default: as upstream.
	FeatureGates map[string]bool

	// EtcdFsync makes etcd wait for the disk on every write, as in production.
	// Default false: several times faster, and safe unless the machine crashes.
	EtcdFsync bool

	// APIServerArgs are further arguments for every kube-apiserver. They follow
	// ours, so they win over them. Default: none.
	APIServerArgs []string

	// StartTimeout bounds the boot. 0 means 90 s. Too low fails on a busy machine.
	StartTimeout time.Duration

	// StopTimeout is how long each component may take to stop before it is killed.
	// 0 means 20 s.
	StopTimeout time.Duration

	// Progress is told what the boot is doing, if it is not nil. It is called from
	// one goroutine at a time, in order, and must not block.
	Progress func(Progress)
}

// Progress is one step of a boot: it is reported when the step starts (Done is
// false), and again when it is over.
type Progress struct {
	// Step says what is being done, such as "kube-apiserver".
	Step string
	// Done says that the step is over.
	Done bool
	// Took is how long the step took, once it is done.
	Took time.Duration
}

// withDefaults returns the options with defaults filled in and files made absolute.
func (o Options) withDefaults() (Options, error) {
	if o.Nodes == 0 && !o.Minimal {
		o.Nodes = 1
	}
	o.Nodes = max(o.Nodes, 0)
	o.APIServers = max(o.APIServers, 1)
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	o.Stages = slices.Clone(o.Stages)
	o.FeatureGates = maps.Clone(o.FeatureGates)
	o.APIServerArgs = slices.Clone(o.APIServerArgs)
	paths := []*string{&o.Data, &o.Kubeconfig, &o.AuditLog, &o.Logs}
	for i := range o.Stages {
		paths = append(paths, &o.Stages[i])
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("sandbox: path %q: %w", *path, err)
		}
		*path = absolute
	}
	return o, nil
}

// validate returns every bad value at once. Errors call an option by the name of its
// flag, which serves both kinds of readers.
func (o Options) validate() error {
	var all []error
	bad := func(field string, value any, why string) {
		all = append(all, fmt.Errorf("sandbox: %s %v: %s: %w", field, value, why, ErrInvalid))
	}
	if o.Nodes < NoNodes || o.Nodes > maxNodes {
		bad("nodes", o.Nodes, fmt.Sprintf("want 0 to %d, or NoNodes", maxNodes))
	}
	if o.Minimal && o.Nodes > 0 {
		bad("nodes", o.Nodes, "a minimal control plane has no nodes")
	}
	if o.Minimal && len(o.Stages) > 0 {
		bad("stages", o.Stages, "a minimal control plane has no simulated kubelet")
	}
	if o.APIServers < 0 || o.APIServers > maxAPIServers {
		bad("apiservers", o.APIServers, fmt.Sprintf("want 1 to %d", maxAPIServers))
	}
	if o.Port < 0 || o.Port > 65535 {
		bad("port", o.Port, "want 1 to 65535, or 0 for a free one")
	}
	if o.StartTimeout < 0 {
		bad("start-timeout", o.StartTimeout, "must not be negative")
	}
	if o.StopTimeout < 0 {
		bad("stop-timeout", o.StopTimeout, "must not be negative")
	}
	for name := range o.FeatureGates {
		if name == "" || strings.ContainsAny(name, "=, ") {
			bad("feature-gates", fmt.Sprintf("%q", name), "not a feature gate's name")
		}
	}
	for _, file := range o.Stages {
		if err := checkStages(file); err != nil {
			bad("stages", file, err.Error())
		}
	}
	return errors.Join(all...)
}

// stageKind is what every Stage has in its YAML (or JSON). A parser would say no more
// that matters: kwok says what is wrong with a stage, but ignores other objects.
var stageKind = regexp.MustCompile(`(?m)["']?kind["']?\s*:\s*["']?Stage\b`)

func checkStages(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return pathCause(err) // the caller names the file
	}
	if !stageKind.Match(content) {
		return errors.New("holds no kwok Stage")
	}
	return nil
}
