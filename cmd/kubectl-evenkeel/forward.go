package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/framework/why"
)

// kubectl runs by the name that started the plugin, with its kubeconfig and context.
const kubectl = "kubectl"

func currentNamespace(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, kubectl, "config", "view", "--minify", "-o", "jsonpath={..namespace}").Output()
	if err != nil {
		return "", fmt.Errorf("the namespace of the current context: %w", err)
	}
	if name := strings.TrimSpace(string(out)); name != "" {
		return name, nil
	}
	return "default", nil
}

// forwarded is the line by which kubectl says which port it has bound.
var forwarded = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) -> `)

// forward has kubectl forward a free port to the operator's.
func forward(ctx context.Context, o options) (address string, closePort func(), err error) {
	parts := strings.SplitN(o.operator, "/", 2)
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, kubectl, "port-forward", "-n", parts[0], parts[1], ":"+o.port)
	var failure bytes.Buffer
	command.Stderr = &failure
	command.WaitDelay = time.Second
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		cancel()
		return "", nil, fmt.Errorf("kubectl port-forward: %w", err)
	}
	end := func() {
		cancel()
		_ = command.Wait() // it was killed
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if match := forwarded.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, stdout) }() // or it would block
			return match[1], end, nil
		}
	}
	end()
	return "", nil, fmt.Errorf("kubectl port-forward to %s: %s", o.operator, strings.TrimSpace(failure.String()))
}

// fetch gets the page of the primary as JSON.
func fetch(ctx context.Context, address string, o options) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	namespace := o.namespace
	if o.clusterScoped {
		namespace = "-"
	}
	to := "http://" + address + why.Root + o.controller + "/" + namespace + "/" + url.PathEscape(o.name) + "?format=json"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the operator answers %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}
