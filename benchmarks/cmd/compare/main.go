// Command compare sets the framework beside controller-runtime and bare client-go loops, and prints
// tables and figures. See the README of this module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
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
	var z sizes
	isQuick := flag.Bool("quick", false, "100 objects, one round, a lag of 1 s: to see that it works; overrides other sizes")
	flag.IntVar(&z.objects, "objects", 1000, "objects of the main comparison and of those under lag")
	flag.IntVar(&z.many, "many", 5000, "objects of the large comparison; 0 for none")
	flag.IntVar(&z.rounds, "rounds", 9, "rounds of the main comparison; the large one has two, the others have one each")
	lags := flag.String("lags", "1s,10s", "comma-separated `durations` by which watches lag; empty for none")
	only := flag.String("only", "", "comma-separated `names` of contenders; default: all")
	workers := flag.Int("workers", 16, "objects worked on at a time")
	budget := flag.Duration("budget", 20*time.Minute, "when to stop and print what there is")
	profile := flag.String("cpuprofile", "", "write a CPU profile of our contender in the first round to this `file`")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", flag.Args())
	}
	for _, value := range listed(*lags) {
		lag, err := time.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("-lags: %w", err)
		}
		z.lags = append(z.lags, lag)
	}
	if *isQuick {
		z = quick
	}
	z.only = listed(*only)
	plan, err := planOf(z)
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

// listed are the elements of a comma-separated list.
func listed(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
