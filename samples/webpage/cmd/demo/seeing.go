package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/debughttp"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/framework/why"
)

// seeing is what the demo shows of its operator by HTTP.
type seeing struct {
	metrics *prometheus.Metrics
	pages   *why.Pages
	server  *debughttp.Server
}

func newSeeing() (*seeing, error) {
	pages, err := why.New(why.Options{})
	if err != nil {
		return nil, err
	}
	return &seeing{metrics: prometheus.New(), pages: pages}, nil
}

func (s *seeing) observers() []observe.Observer { return []observe.Observer{s.metrics, s.pages} }

// listen binds a free port for an operator.
func (s *seeing) listen(op *framework.Operator) (err error) {
	s.metrics.Of(op)
	s.pages.Of(op)
	s.server, err = debughttp.Listen(debughttp.Options{
		Address: "localhost:0", Operator: op, Metrics: s.metrics.Handler(), Pages: s.pages.Handler(),
	})
	return err
}

func (s *seeing) url(path string) string { return "http://" + s.server.Address() + path }

// check fetches everything once, as a person would, and looks for what must be there.
func (s *seeing) check(ctx context.Context, pages int) error {
	var errs []error
	expect := func(path string, parts ...string) string {
		body, err := s.fetch(ctx, path)
		for _, part := range parts {
			if err == nil && !strings.Contains(body, part) {
				err = fmt.Errorf("%s lacks %q", path, part)
			}
		}
		errs = append(errs, err)
		return body
	}
	expect("/healthz", "ok")
	expect("/readyz", "ok")
	expect("/metrics", `controller_runtime_reconcile_total{controller="webpage",result="success"}`, "rest_client_requests_total{", "evenkeel_cache_objects{")
	expect(why.Root, "webpage", "ready")
	expect(why.Root+"webpage", "Newest", `class="workflow"`)
	var controller why.OfController
	errs = append(errs, json.Unmarshal([]byte(expect(why.Root+"webpage?format=json")), &controller))
	for _, page := range controller.Often { // each page has several runs
		expect(page.Path, page.Name, "succeeded", "apply Deployment", "✓ Ready")
	}
	if len(controller.Often) != pages {
		errs = append(errs, fmt.Errorf("%s shows runs of %d pages, want %d", why.Root+"webpage", len(controller.Often), pages))
	}
	return errors.Join(errs...)
}

func (s *seeing) fetch(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(path), http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}
