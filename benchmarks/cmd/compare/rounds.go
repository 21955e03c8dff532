package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

const (
	// settle is how long nothing may happen: longer than the peer's back-off after a conflict.
	settle = 1500 * time.Millisecond
	// warmUp objects get a fresh API server going before anybody is measured.
	warmUp = 200
)

// round is what the contenders of one round were measured at, by name.
type round map[string]contenders.Result

// measurements are all rounds of a comparison.
type measurements struct {
	idle   round              // without objects: what the processes need by themselves
	rounds map[string][]round // by the scenario's suffix
}

// comparison carries out a plan.
type comparison struct {
	plan    []scenario
	workers int
	profile string
	log     io.Writer
}

// run returns what was measured so far beside an error.
func (c *comparison) run(ctx context.Context) (*measurements, error) {
	m := &measurements{idle: round{}, rounds: map[string][]round{}}
	for _, s := range c.plan {
		for i := range s.rounds {
			fmt.Fprintf(c.log, "%s, round %d of %d\n", s, i+1, s.rounds)
			r, err := c.round(ctx, s, i, m.idle)
			// A round that was cut short may hold some of what figures need.
			m.rounds[s.suffix] = append(m.rounds[s.suffix], r)
			if err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

// round measures the contenders of a round one after the other, on an API server of their own.
// Those that idle lacks are measured without objects first.
func (c *comparison) round(ctx context.Context, s scenario, number int, idle round) (_ round, err error) {
	measured := round{}
	server, err := testenv.Start(testenv.WebPageCRDs())
	if err != nil {
		return measured, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	b := bench{server: server.Config, workers: c.workers}
	if b.admin, err = adminOf(server.Config); err != nil {
		return measured, err
	}
	if _, err := b.measure(ctx, contenders.RawNoWatches, warmUp, 0, ""); err != nil {
		return measured, err
	}
	for _, name := range s.round(number) {
		if _, known := idle[name]; !known {
			if idle[name], err = b.measure(ctx, name, 0, 0, ""); err != nil {
				return measured, err
			}
		}
		profile := ""
		if name == contenders.Ours {
			profile, c.profile = c.profile, ""
		}
		result, err := b.measure(ctx, name, s.objects, s.lag, profile)
		if err != nil {
			return measured, err
		}
		measured[name] = result
		fmt.Fprintf(c.log, "  %-30s %.2f runs, %.2f writes, %.2f conflicts per object, %.2f s\n", name,
			perObject(result.Runs, result), perObject(result.Writes, result), perObject(result.Conflicts, result), result.Wall.Seconds())
	}
	return measured, nil
}

func adminOf(server *rest.Config) (client.Client, error) {
	scheme, err := work.Scheme()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(server)
	config.QPS = -1
	return client.New(config, client.Options{Scheme: scheme})
}

// bench is an API server on which contenders are measured.
type bench struct {
	server     *rest.Config
	admin      client.Client
	workers    int
	namespaces int
}

// measure makes fresh objects, lets the contender work on them, and checks what it did.
func (b *bench) measure(ctx context.Context, name string, objects int, lag time.Duration, profile string) (contenders.Result, error) {
	b.namespaces++
	namespace := fmt.Sprintf("compare-%d", b.namespaces)
	if err := work.Create(ctx, b.admin, namespace, objects); err != nil {
		return contenders.Result{}, err
	}
	// Far more than anyone has needed: a contender that hangs is to fail.
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute+10*lag)
	defer cancel()
	result, err := send(limited, order{
		Contender: name, Profile: profile,
		Task:       contenders.Task{Namespace: namespace, Objects: objects, Workers: b.workers},
		Conditions: contenders.Conditions{Lag: lag, Settle: settle},
	}, b.server)
	if err != nil {
		return contenders.Result{}, err
	}
	return result, work.Check(ctx, b.admin, namespace, objects)
}

func perObject[N int | float64](n N, r contenders.Result) float64 {
	return float64(n) / float64(max(1, r.Objects))
}
