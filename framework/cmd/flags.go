package cmd

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/framework/config"
	"github.com/evenkeel/evenkeel/framework/debughttp"
)

// flags are the arguments that are no settings.
type flags struct {
	kubeconfig, context, config, listen, certFile, keyFile, logFormat string
	guard, profiles, plan                                             bool
	verbosity                                                         int
}

// parse reads the arguments but those that are settings. If they ask for help, it prints that and
// returns [flag.ErrHelp].
func (p program) parse(args []string) (f flags, err error) {
	set := flag.NewFlagSet(p.name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // the error is printed once, and without all flags
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` with the way to the API server; default: as kubectl, and in a Pod its service account")
	set.StringVar(&f.context, "context", "", "`NAME` of the context of the kubeconfig; default: the current one")
	set.StringVar(&f.listen, "listen", debughttp.DefaultAddress, "`ADDRESS` of probes, metrics and pages, as \":8080\" for those of a Pod")
	set.BoolVar(&f.guard, "guard", false, "metrics and pages need a bearer token whose user may get the path")
	set.StringVar(&f.certFile, "tls-cert", "", "PEM `FILE` of a certificate, to serve by HTTPS")
	set.StringVar(&f.keyFile, "tls-key", "", "PEM `FILE` of its key")
	set.BoolVar(&f.profiles, "profiles", false, "serve /debug/pprof/ too")
	set.StringVar(&f.config, "config", "", "`FILE` with settings, as YAML or JSON")
	set.IntVar(&f.verbosity, "v", 0, "verbosity `N`: 0 state changes and failures, 1 a line per run, 2 causes")
	set.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	set.BoolVar(&f.plan, "plan", false, "print what the operator would change now, and change nothing; exit code 2 if that is anything")
	switch err := set.Parse(slices.DeleteFunc(slices.Clone(args), config.IsSetting)); {
	case errors.Is(err, flag.ErrHelp):
		p.help(set)
		return f, err
	case err != nil:
		return f, fmt.Errorf("%w; -help lists the arguments", err)
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("argument %q: there is no such argument; -help lists them", set.Arg(0))
	case f.logFormat != "text" && f.logFormat != "json":
		return f, fmt.Errorf("argument -log-format: %q: must be text or json", f.logFormat)
	case (f.certFile == "") != (f.keyFile == ""):
		return f, fmt.Errorf("arguments -tls-cert %q and -tls-key %q: must be set both, or none", f.certFile, f.keyFile)
	}
	return f, nil
}

// help prints the arguments and the settings.
func (p program) help(set *flag.FlagSet) {
	_, _ = fmt.Fprintf(p.out, "%s runs until it is interrupted.\n\nArguments:\n", p.name)
	set.SetOutput(p.out)
	set.PrintDefaults()
	_, _ = fmt.Fprintf(p.out, "\nSettings, as --operator.KEY=VALUE or %s_OPERATOR_KEY=VALUE:\n  %s\n", prefix(p.name), strings.Join(config.OperatorKeys(), "\n  "))
	_, _ = fmt.Fprintf(p.out, "\nSettings of a controller, as --controllers.NAME.KEY=VALUE:\n  %s\n", strings.Join(config.ControllerKeys(), "\n  "))
}

// prefix returns the prefix of environment variables of an operator.
func prefix(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

func (f flags) logger(to io.Writer) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-f.verbosity)}
	if f.logFormat == "json" {
		return logr.FromSlogHandler(slog.NewJSONHandler(to, options))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(to, options))
}
