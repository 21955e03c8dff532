package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/benchmarks/contenders"
)

// order is what a contender's process is told on its standard input. The input then stays open: its
// end means that nobody waits for the result any more.
type order struct {
	Contender  string
	Task       contenders.Task
	Conditions contenders.Conditions
	Profile    string

	Host          string
	CA, Cert, Key []byte
}

// contend is a contender's process: it takes an order and answers with a result.
func contend(ctx context.Context) error {
	decoder := json.NewDecoder(os.Stdin)
	var o order
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("%s: read the order: %w", contendArgument, err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	contender, err := contenders.Named(o.Contender)
	if err != nil {
		return err
	}
	if o.Profile != "" {
		file, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer func() { pprof.StopCPUProfile(); _ = file.Close() }()
	}
	config := &rest.Config{Host: o.Host, TLSClientConfig: rest.TLSClientConfig{CAData: o.CA, CertData: o.Cert, KeyData: o.Key}}
	result, err := contenders.Measure(ctx, contender, config, o.Task, o.Conditions)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// send runs a contender's process with the order, until it has answered or ctx ends.
func send(ctx context.Context, o order, server *rest.Config) (contenders.Result, error) {
	fail := func(err error) (contenders.Result, error) {
		return contenders.Result{}, fmt.Errorf("contender %s: %w", o.Contender, errors.Join(err, ctx.Err()))
	}
	o.Host, o.CA, o.Cert, o.Key = server.Host, server.CAData, server.CertData, server.KeyData
	program, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	command := exec.CommandContext(ctx, program, contendArgument)
	command.WaitDelay = 5 * time.Second
	command.Stderr = os.Stderr
	var answer bytes.Buffer
	command.Stdout = &answer
	stdin, err := command.StdinPipe()
	if err != nil {
		return fail(err)
	}
	if err := command.Start(); err != nil {
		return fail(err)
	}
	err = json.NewEncoder(stdin).Encode(o)
	if err := errors.Join(err, command.Wait()); err != nil {
		return fail(err)
	}
	var result contenders.Result
	if err := json.Unmarshal(answer.Bytes(), &result); err != nil {
		return fail(err)
	}
	return result, nil
}
