package testenv

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// watchMethod is etcd's only one that delivers events.
const watchMethod = "/etcdserverpb.Watch/Watch"

// etcdWay is a proxy that passes everything on to etcd, and etcd's watches through a gate. It needs
// no more of gRPC than that it is HTTP/2.
type etcdWay struct {
	socket  string
	watches *gate
	server  *http.Server
	etcd    *http.Transport
	served  chan error
}

// openEtcdWay listens at a socket for what goes to etcd's.
func openEtcdWay(socket, etcd string) (*etcdWay, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	w := &etcdWay{socket: socket, watches: newGate(), served: make(chan error, 1)}
	w.etcd = &http.Transport{Protocols: &plain, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", etcd)
	}}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "etcd"}) },
		Transport:      w.etcd,
		FlushInterval:  -1, // an event is passed on at once
		ModifyResponse: w.gateWatch,
		ErrorLog:       log.New(io.Discard, "", 0), // the API server hears of errors
	}
	w.server = &http.Server{
		Handler: proxy, Protocols: &plain, ErrorLog: proxy.ErrorLog,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 16}, // etcd has no limit either
	}
	go func() { w.served <- w.server.Serve(listener) }()
	return w, nil
}

func (w *etcdWay) url() string { return "unix://" + w.socket }

func (w *etcdWay) close() error {
	err := w.server.Close()
	if served := <-w.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	w.etcd.CloseIdleConnections()
	return err
}

// gateWatch makes the answer to a watch wait at the gate.
func (w *etcdWay) gateWatch(answer *http.Response) error {
	if answer.Request.URL.Path == watchMethod {
		answer.Body = &gated{ReadCloser: answer.Body, ctx: answer.Request.Context(), gate: w.watches}
	}
	return nil
}

// gated is an answer that passes a gate.
type gated struct {
	io.ReadCloser
	ctx  context.Context
	gate *gate
}

// Read returns what has come once the gate is open.
func (g *gated) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	if n > 0 {
		if ended := g.gate.pass(g.ctx); ended != nil {
			return 0, ended
		}
	}
	return n, err
}

// gate is open or shut.
type gate struct {
	mu     sync.Mutex    // guards below
	opened chan struct{} // closed when open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}
