package components

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // any kubeconfig must work, not only ours
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func runKubectl() int {
	forgetGlobalFlags()
	// Building the command already logs (plugins, kuberc), before the flags are
	// parsed, so the verbosity is taken from the arguments now.
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		os.Stderr.WriteString("sandbox: kubectl: " + err.Error() + "\n")
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints what kubectl prints, and ends with its exit code
	}
	return 0
}
