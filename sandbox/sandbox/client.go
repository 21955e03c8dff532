package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	requestTimeout = 10 * time.Second
	// pollInterval is how often a condition is looked at that nothing announces.
	pollInterval = 50 * time.Millisecond
)

// client talks to our servers as somebody who may do everything. It is no more than the boot
// needs; client-go would be most of what importing this package costs.
type client struct{ http *http.Client }

func newClient(ca *authority, login pair) (*client, error) {
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	own, err := tls.X509KeyPair(login.cert, login.key)
	if err != nil {
		return nil, fmt.Errorf("sandbox: a client's certificate: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: requestTimeout,
		MaxIdleConnsPerHost: nodeWorkers,
	}
	return &client{http: &http.Client{Transport: transport, Timeout: requestTimeout}}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends a request and returns the status code and the body. A nil body sends none.
func (c *client) do(ctx context.Context, method, url string, body any) (int, []byte, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "evenkeel-sandbox")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// get returns the body of an answer with status 200, and an error for any other.
func (c *client) get(ctx context.Context, url string) ([]byte, error) {
	code, body, err := c.do(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %d %s: %s", url, code, http.StatusText(code), bytes.TrimSpace(body))
	}
	return body, nil
}

// healthy returns a function that waits until url answers 200. It polls, because a
// server that does not listen yet cannot announce that it will.
func (c *client) healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		return poll(ctx, func() error {
			_, err := c.get(ctx, url)
			return err
		})
	}
}

// poll repeats try until it succeeds or ctx is done, and then returns the last error.
func poll(ctx context.Context, try func() error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			if last == nil {
				last = context.Cause(ctx)
			}
			return fmt.Errorf("%w (%w)", context.Cause(ctx), last)
		case <-timer.C:
		}
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // else it only says that we have been interrupted
			last = err
		}
		timer.Reset(pollInterval)
	}
}
