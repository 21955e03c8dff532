// Command kubectl-evenkeel is a plugin of kubectl: it prints why an operator did what it did.
//
//	kubectl evenkeel why webpage hello --operator webpage-operator/deploy/webpage-operator
//
// It forwards a port to the operator's listener (package framework/debughttp with the pages of
// framework/why), by kubectl itself, and prints the last runs of a primary. go install puts it
// where kubectl finds it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `kubectl evenkeel why KIND NAME --operator NAMESPACE/deploy/NAME [flags]

Prints the last runs of a primary: why each happened, what it wrote, and what comes next.

  --operator NAMESPACE/KIND/NAME  what to forward a port to; default: the variable EVENKEEL_OPERATOR
  --port PORT                     of the operator's listener; default 8080
  -n, --namespace NAMESPACE       of the primary; default: that of the current context
  --cluster-scoped                the primary has no namespace
  --controller NAME               default: KIND in lower case
  -o json                         print JSON
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubectl evenkeel:", err)
		os.Exit(1)
	}
}

// options are the arguments.
type options struct {
	kind, name            string
	operator, port        string
	namespace             string
	clusterScoped, asJSON bool
	controller            string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return nil
	}
	if err != nil {
		return err
	}
	if o.namespace == "" && !o.clusterScoped {
		if o.namespace, err = currentNamespace(ctx); err != nil {
			return err
		}
	}
	address, closePort, err := forward(ctx, o)
	if err != nil {
		return err
	}
	defer closePort()
	body, err := fetch(ctx, address, o)
	if err != nil {
		return err
	}
	if o.asJSON {
		_, err = out.Write(body)
		return err
	}
	return print(out, body)
}

// parse reads the arguments. Flags may stand anywhere, as with kubectl.
func parse(args []string) (options, error) {
	o := options{operator: os.Getenv("EVENKEEL_OPERATOR")}
	flags := flag.NewFlagSet("kubectl evenkeel", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	output := ""
	flags.StringVar(&o.operator, "operator", o.operator, "")
	flags.StringVar(&o.port, "port", "8080", "")
	flags.StringVar(&o.namespace, "namespace", "", "")
	flags.StringVar(&o.namespace, "n", "", "")
	flags.BoolVar(&o.clusterScoped, "cluster-scoped", false, "")
	flags.StringVar(&o.controller, "controller", "", "")
	flags.StringVar(&output, "o", "", "")
	var words []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return o, err
		}
		if args = flags.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	if len(words) == 0 || words[0] == "help" {
		return o, flag.ErrHelp
	}
	if words[0] != "why" || len(words) != 3 {
		return o, fmt.Errorf("unexpected arguments %q: want why KIND NAME; see kubectl evenkeel help", words)
	}
	o.kind, o.name = words[1], words[2]
	if o.controller == "" {
		o.controller = strings.ToLower(o.kind)
	}
	switch {
	case strings.Count(o.operator, "/") != 2:
		return o, fmt.Errorf("--operator %q: want NAMESPACE/KIND/NAME, as in webpage-operator/deploy/webpage-operator", o.operator)
	case output != "" && output != "json":
		return o, fmt.Errorf("-o %q: want json", output)
	case o.clusterScoped && o.namespace != "":
		return o, fmt.Errorf("--cluster-scoped and --namespace %q: give one of them", o.namespace)
	}
	o.asJSON = output == "json"
	return o, nil
}
