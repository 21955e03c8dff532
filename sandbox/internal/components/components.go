package components

import (
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// program is one upstream program. It returns the exit code, unless upstream
// ends the process itself (etcd does).
type program struct {
	run func() int
	// server says that the program runs until it is stopped, and so must not
	// outlive the process that started it.
	server bool
}

func programs() map[string]program {
	return map[string]program{
		"etcd":                    {run: runEtcd, server: true},
		"kube-apiserver":          {run: runAPIServer, server: true},
		"kube-controller-manager": {run: runControllerManager, server: true},
		"kube-scheduler":          {run: runScheduler, server: true},
		"kwok":                    {run: runKwok, server: true},
		"kubectl":                 {run: runKubectl},
	}
}

// Known says whether name is a component's.
func Known(name string) bool {
	_, ok := programs()[name]
	return ok
}

// Names returns the names of all components in alphabetical order.
func Names() []string {
	var names []string
	for name := range programs() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run runs the named component with arguments (without a program name) until it
// ends, and returns its exit code; some components end the process themselves.
// It may be called once per process and panics for an unknown name.
func Run(name string, arguments []string) int {
	p, ok := programs()[name]
	if !ok {
		panic("components: unknown component " + name)
	}
	// Upstream parses os.Args, wherever it is called from.
	os.Args = append([]string{name}, arguments...)
	setKubernetesVersion()
	if p.server {
		go watchParent(os.Getppid, parentInterval, time.Sleep, func() { os.Exit(exitOrphaned) })
	}
	return p.run()
}

// forgetGlobalFlags empties the global flag set. The packages of the Kubernetes
// servers put their flags there, --version among them, and cobra would give them to
// every other command in this binary.
func forgetGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet("", pflag.ContinueOnError)
}
