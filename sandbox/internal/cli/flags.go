package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

const upHelp = `Boots a control plane, waits until it is ready, runs the command against it, stops
everything and ends with the command's exit code. Without a command it prints how to
reach the control plane and stays until it is interrupted (Ctrl-C, SIGTERM).

Everything listens on 127.0.0.1 only. Nothing is left behind, however it ends, except
with --data, --audit-log and --logs.

Usage:
  sandbox up [flags] [-- command args...]

The command's environment:
  KUBECONFIG             kubeconfig of the administrator, for the first kube-apiserver
  SANDBOX_KUBECONFIG_N   the same for kube-apiserver N (2, 3, ...) of --apiservers
  EVENKEEL_SANDBOX       this program; package sandbox and scripts use it
  PATH                   has a kubectl at its end, for machines without one

Flags:
`

// upFlags are what the flags of up say.
type upFlags struct {
	options sandbox.Options
	command []string
	help    bool
}

// nodesFlag keeps apart "not given" (the default) and 0 (none).
type nodesFlag struct{ nodes *int }

func (f nodesFlag) Type() string { return "int" }

func (f nodesFlag) String() string {
	switch {
	case f.nodes == nil || *f.nodes == 0:
		return "1"
	case *f.nodes == sandbox.NoNodes:
		return "0"
	default:
		return strconv.Itoa(*f.nodes)
	}
}

func (f nodesFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("want a number from 0")
	}
	if n == 0 {
		n = sandbox.NoNodes
	}
	*f.nodes = n
	return nil
}

// gatesFlag is Name=true,Name=false.
type gatesFlag struct{ gates *map[string]bool }

func (f gatesFlag) Type() string   { return "Name=bool,..." }
func (f gatesFlag) String() string { return "" }

func (f gatesFlag) Set(text string) error {
	if *f.gates == nil {
		*f.gates = map[string]bool{}
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		on, err := strconv.ParseBool(value)
		if !found || err != nil {
			return fmt.Errorf("%q: want Name=true or Name=false", part)
		}
		(*f.gates)[name] = on
	}
	return nil
}

func upFlagSet(o *sandbox.Options, help *bool) *pflag.FlagSet {
	set := pflag.NewFlagSet("up", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {} // errors are ours to print
	set.BoolVar(&o.Minimal, "minimal", false, "only etcd and kube-apiserver: no pods run, no garbage is collected")
	set.Var(nodesFlag{&o.Nodes}, "nodes", "number of simulated nodes; 0 for none")
	set.StringArrayVar(&o.Stages, "stages", nil, "file with kwok Stages for pods, instead of kwok's fast ones; may be repeated")
	set.IntVar(&o.APIServers, "apiservers", 1, "number of kube-apiservers on the one etcd")
	set.IntVar(&o.Port, "port", 0, "port of the first kube-apiserver; 0 for a free one")
	set.StringVar(&o.Data, "data", "", "folder that keeps the cluster's state across runs")
	set.StringVar(&o.Kubeconfig, "kubeconfig", "", "file to write the kubeconfig to, -2, -3, ... appended for further\nkube-apiservers; removed at the end (default: in a temporary folder)")
	set.StringVar(&o.AuditLog, "audit-log", "", "file to append the audit log to, -2, -3, ... appended likewise")
	set.StringVar(&o.Logs, "logs", "", "folder to append the components' logs to (default: in a temporary folder)")
	set.Var(gatesFlag{&o.FeatureGates}, "feature-gates", "Kubernetes feature gates to switch; may be repeated")
	set.BoolVar(&o.EtcdFsync, "etcd-fsync", false, "let etcd wait for the disk, as in production; slower")
	set.StringArrayVar(&o.APIServerArgs, "apiserver-arg", nil, "further argument for every kube-apiserver; may be repeated")
	set.DurationVar(&o.StartTimeout, "start-timeout", 0, "how long the boot may take (default 1m30s)")
	set.DurationVar(&o.StopTimeout, "stop-timeout", 0, "how long each component may take to stop before it is killed\n(default 20s)")
	set.BoolVarP(help, "help", "h", false, "this text")
	return set
}

// parseUp reads the arguments of up. Errors are usage errors that name flag and value.
func parseUp(arguments []string) (upFlags, error) {
	var f upFlags
	set := upFlagSet(&f.options, &f.help)
	if err := set.Parse(arguments); err != nil {
		return f, fmt.Errorf("%w: up: %w; see sandbox help up", errUsage, err)
	}
	f.command = set.Args()
	dash := set.ArgsLenAtDash()
	if dash > 0 || dash < 0 && len(f.command) > 0 {
		return f, fmt.Errorf("%w: up: unexpected argument %q; a command goes after --", errUsage, f.command[0])
	}
	if dash == 0 && len(f.command) == 0 {
		return f, fmt.Errorf("%w: up: there is no command after --", errUsage)
	}
	if f.options.APIServers < 1 {
		return f, fmt.Errorf("%w: up: --apiservers %d: want a number from 1", errUsage, f.options.APIServers)
	}
	return f, nil
}
