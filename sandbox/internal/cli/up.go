package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

func up(arguments []string, s streams) int {
	flags, err := parseUp(arguments)
	if err != nil {
		return fail(s.err, err)
	}
	if flags.help {
		var help bool
		fmt.Fprint(s.out, upHelp+upFlagSet(&sandbox.Options{}, &help).FlagUsages())
		return 0
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Who has us ignore a hang-up (nohup) wants us to outlive the terminal.
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)

	began := time.Now()
	shown := newProgress(s.err)
	plane, interrupted, err := boot(flags.options, shown, signals)
	if err != nil {
		shown.abort()
		if interrupted != 0 {
			fmt.Fprintln(s.err, "sandbox: interrupted while booting")
			return 128 + int(interrupted)
		}
		return fail(s.err, err)
	}
	var code int
	if len(flags.command) > 0 {
		code = runCommand(plane, flags.command, s, signals)
	} else {
		announce(plane, s, shown, time.Since(began))
		code = stay(plane, s, signals)
	}
	if err := stop(plane, signals); err != nil {
		return max(code, fail(s.err, err))
	}
	return code
}

// boot starts the control plane. A signal that comes meanwhile ends the boot, and is
// returned.
func boot(o sandbox.Options, shown *progress, signals <-chan os.Signal) (*sandbox.ControlPlane, syscall.Signal, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, 0, fmt.Errorf("sandbox: find this program: %w", err)
	}
	o.Binary = self
	o.Progress = shown.report
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	caught := make(chan syscall.Signal, 1)
	go func() {
		select {
		case s := <-signals:
			caught <- s.(syscall.Signal)
			cancel()
		case <-ctx.Done():
		}
	}()
	plane, err := sandbox.Start(ctx, o)
	select {
	case s := <-caught:
		if err == nil { // it came too late to end the boot
			err = plane.Stop(ctx)
			err = errors.Join(errors.New("sandbox: interrupted"), err)
		}
		return nil, s, err
	default:
		return plane, 0, err
	}
}

// announce tells how to reach the control plane: to a terminal in words, and always
// in lines that a shell can evaluate.
func announce(plane *sandbox.ControlPlane, s streams, shown *progress, took time.Duration) {
	if shown != nil {
		fmt.Fprintf(s.err, "Kubernetes %s is ready after %s. Press Ctrl-C to stop it.\n", plane.KubernetesVersion(), seconds(took))
	}
	for _, variable := range kubeconfigVariables(plane) {
		fmt.Fprintln(s.out, exported(variable))
	}
}

// exported is a line that sets a variable, NAME=value, in a POSIX shell that evaluates it.
func exported(variable string) string {
	name, value, _ := strings.Cut(variable, "=")
	return "export " + name + "=" + quoted(value)
}

// plain is what no shell takes for anything but itself.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// quoted is a text as one word of a POSIX shell: a path may hold anything, and would be run.
func quoted(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func kubeconfigVariables(plane *sandbox.ControlPlane) []string {
	var variables []string
	for i, file := range plane.Kubeconfigs() {
		if i == 0 {
			variables = append(variables, "KUBECONFIG="+file)
		} else {
			variables = append(variables, fmt.Sprintf("SANDBOX_KUBECONFIG_%d=%s", i+1, file))
		}
	}
	return variables
}

// stay waits until it is told to end, which is how this ends well.
func stay(plane *sandbox.ControlPlane, s streams, signals <-chan os.Signal) int {
	select {
	case <-signals:
		return 0
	case <-plane.Done():
		return fail(s.err, plane.Err())
	}
}

// stop stops the control plane in order; one more signal makes it stop at once.
func stop(plane *sandbox.ControlPlane, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return plane.Stop(ctx)
}
