// Command compare sets the framework beside controller-runtime and bare client-go loops, and prints tables
// and figures. See the README of this module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// contendArgument is the one argument of a process that is a contender.
const contendArgument = "contend"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // envtest would complain that nobody takes its log
	run := compare
	if len(os.Args) == 2 && os.Args[1] == contendArgument {
		run = contend
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context) error {
	quick := flag.Bool("quick", false, "100 objects, one round, a lag of 1 s: to see that it works")
	objects := flag.Int("objects", 1000, "objects of the main comparison and of those under lag")
	many := flag.Int("many", 5000, "objects of the large comparison; 0 for none")
	rounds := flag.Int("rounds", 3, "rounds of the main comparison; the others have one each")
	workers := flag.Int("workers", 16, "objects worked on at a time")
	only := flag.String("only", "", "comma-separated `names` of contenders; default: all")
	budget := flag.Duration("budget", 14*time.Minute, "when to stop and print what there is")
	profile := flag.String("cpuprofile", "", "write a CPU profile of our contender in the first round to this `file`")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", flag.Args())
	}
	plan, err := planOf(*quick, *objects, *many, *rounds, *only)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, *budget)
	defer cancel()
	c := &comparison{plan: plan, workers: *workers, profile: *profile, log: os.Stderr}
	measured, err := c.run(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "the budget of %v is used up; what follows is what there is\n", *budget)
		err = nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	print(os.Stdout, plan, measured)
	return err
}
