package wire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/wire"
)

// rig is a TLS server, a wire to it and a client of that.
type rig struct {
	*testing.T
	wire    *wire.Wire
	client  *http.Client
	url     string
	served  atomic.Int32
	reached chan struct{} // one for each request
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, reached: make(chan struct{}, 1000)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		r.served.Add(1)
		r.reached <- struct{}{}
		_, _ = w.Write(bytes.Repeat([]byte("answer "), 1000))
	}))
	t.Cleanup(server.Close)
	w, err := wire.Start(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	r.wire, r.url = w, w.Config().Host
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, ServerName: "127.0.0.1"}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

// post sends a request and returns its error.
func (r *rig) post() error {
	response, err := r.client.Post(r.url, "text/plain", strings.NewReader("request"))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && len(body) != 7000 {
		err = fmt.Errorf("%d bytes", len(body))
	}
	return err
}

func (r *rig) eventually(what string, met func() bool) {
	r.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !met() { // what is in the kernel tells nobody
		if time.Now().After(deadline) {
			r.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAWirePassesOn(t *testing.T) {
	r := newRig(t)
	for range 10 {
		if err := r.post(); err != nil {
			t.Fatal(err)
		}
	}
	if r.served.Load() != 10 || r.wire.Open() != 1 {
		t.Errorf("%d requests over %d connections", r.served.Load(), r.wire.Open())
	}
	r.client.CloseIdleConnections()
	r.eventually("a connection that has ended is forgotten", func() bool { return r.wire.Open() == 0 })
}

func TestAnAnswerIsLostInEveryWayAfterTheServerHasServedIt(t *testing.T) {
	for name, way := range wire.Ways() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if err := r.post(); err != nil {
				t.Fatal(err)
			}
			<-r.reached
			r.wire.HoldAnswers()
			failed := make(chan error, 1)
			go func() { failed <- r.post() }()
			<-r.reached
			r.eventually("the answer is held", func() bool { return r.wire.Held() > 0 })
			if n := r.wire.Break(way); n != 1 {
				t.Errorf("%d connections were broken", n)
			}
			err := <-failed
			if err == nil || isDial(err) {
				t.Errorf("the client was told: %v", err)
			}
			if is := errors.Is(err, syscall.ECONNRESET); is != (way == wire.Reset) {
				t.Errorf("the client was told: %v", err)
			}
			if n := r.served.Load(); n != 2 {
				t.Errorf("%d requests were served, want 2", n)
			}
			if err := r.post(); err != nil {
				t.Errorf("the next request: %v", err)
			}
			r.eventually("the broken connection is forgotten", func() bool { return r.wire.Open() <= 1 })
		})
	}
}

func TestARequestIsLostBeforeTheServerSeesIt(t *testing.T) {
	r := newRig(t)
	if err := r.post(); err != nil {
		t.Fatal(err)
	}
	r.wire.HoldRequests()
	failed := make(chan error, 1)
	go func() { failed <- r.post() }()
	r.eventually("the request is held", func() bool { return r.wire.Held() > 0 })
	r.wire.Break(wire.Reset)
	if err := <-failed; err == nil || isDial(err) || r.served.Load() != 1 {
		t.Errorf("the client was told: %v; %d requests were served", err, r.served.Load())
	}
}

func TestWhatIsHeldArrivesWhenReleased(t *testing.T) {
	r := newRig(t)
	for _, hold := range []func(){r.wire.HoldRequests, r.wire.HoldAnswers} {
		hold()
		done := make(chan error, 1)
		go func() { done <- r.post() }()
		r.eventually("something is held", func() bool { return r.wire.Held() > 0 })
		r.wire.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := r.wire.Held(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
	}
}

func TestNobodyConnectsToAWireThatRefuses(t *testing.T) {
	r := newRig(t)
	r.wire.Refuse()
	if err := r.post(); !isDial(err) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the client was told: %v", err)
	}
	if err := r.wire.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := r.post(); err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsGoneResetsWhoeverConnects(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	w, err := wire.Start(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Config().Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.DefaultClient.Do(request); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client was told: %v", err)
	}
}

func TestAWireNeedsAServerThatSpeaksTLS(t *testing.T) {
	for _, host := range []string{"http://127.0.0.1:80", "127.0.0.1", "https://server", "https://%"} {
		if w, err := wire.Start(&rest.Config{Host: host}); err == nil {
			w.Stop()
			t.Errorf("%s: no error", host)
		}
	}
}

func isDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}
