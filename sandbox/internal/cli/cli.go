package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/sandbox/internal/guard"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

// Components are the programs in this binary that are not part of the command line.
type Components struct {
	// Known says whether name is a component.
	Known func(name string) bool
	// Run runs the component until it ends and returns the exit code.
	Run func(name string, arguments []string) int
}

const help = `sandbox is a real Kubernetes control plane in one program: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, a simulated kubelet (kwok) and kubectl.

Usage:
  sandbox up [flags] [-- command args...]   boot a control plane, run the command against it, stop
  sandbox assets DIR                        put etcd, kube-apiserver and kubectl into DIR, for envtest
  sandbox kubectl ...                       kubectl
  sandbox version                           what this program was built from
  sandbox help [command]                    this text, or a command's

Examples:
  sandbox up -- go test ./...               tests find the cluster through KUBECONFIG
  sandbox up                                stay until Ctrl-C; prints the KUBECONFIG to use
  sandbox up --data ./cluster               keep the cluster's state across runs
  export KUBEBUILDER_ASSETS=$(sandbox assets ./bin)

Called as etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok or
kubectl (through a link, or as the first argument), it is that program, with all of
its flags. A server among them ends itself when the process that started it is gone,
unless EVENKEEL_SANDBOX_OUTLIVE_PARENT=1 is set.
`

// errUsage marks errors that the caller could have avoided: exit code 2.
var errUsage = errors.New("bad usage")

// Main runs the command line and returns the exit code. arguments[0] is the
// program's name.
func Main(arguments []string, components Components) int {
	if name := filepath.Base(arguments[0]); components.Known(name) {
		return components.Run(name, arguments[1:])
	}
	if len(arguments) > 1 && components.Known(arguments[1]) {
		return components.Run(arguments[1], arguments[2:])
	}
	return dispatch(arguments[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
}

// streams are the standard streams; tests put files of their own there.
type streams struct{ in, out, err *os.File }

func dispatch(arguments []string, s streams) int {
	if len(arguments) == 0 {
		fmt.Fprint(s.err, help)
		return exitUsage
	}
	switch command := arguments[0]; command {
	case guard.Command:
		return guard.Run(s.in)
	case "up":
		return up(arguments[1:], s)
	case "assets":
		return assets(arguments[1:], s)
	case "version", "--version":
		return version(s)
	case "help", "--help", "-h":
		return showHelp(arguments[1:], s)
	default:
		return fail(s.err, fmt.Errorf("%w: unknown command %q; see sandbox help", errUsage, command))
	}
}

func showHelp(arguments []string, s streams) int {
	if len(arguments) == 0 {
		fmt.Fprint(s.out, help)
		return 0
	}
	switch arguments[0] {
	case "up":
		return up([]string{"--help"}, s)
	case "assets":
		return assets([]string{"--help"}, s)
	default:
		return dispatch(arguments[:1], s)
	}
}

// fail prints the error the way all of ours look and returns the exit code for it.
func fail(w io.Writer, err error) int {
	code := exitFailure
	text := err.Error()
	switch {
	case errors.Is(err, errUsage):
		code = exitUsage
		text = "sandbox: " + text
	case errors.Is(err, sandbox.ErrInvalid):
		code = exitUsage
	}
	fmt.Fprintln(w, text)
	return code
}
