package faultproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Proxy is a running proxy. Start makes one.
type Proxy struct {
	target  *rest.Config
	config  *rest.Config
	reverse httputil.ReverseProxy
	direct  *http.Transport
	server  *http.Server
	serving chan struct{} // closed when the listener is
	stopped context.Context
	stop    context.CancelFunc
	seed    uint64

	exchanges sync.WaitGroup
	writes    sync.WaitGroup // of the exchanges, those that may change something

	mu       sync.Mutex // guards below
	stopping bool
	rules    []*armed
	watches  []*exchange // in the order in which they came
	log      []Entry     // see Log
	logged   chan struct{}
	// connections are those to the server.
	connections map[net.Conn]bool
}

// exchange is one request on its way; its fault is fixed but that of a watch's events, which is its
// flow's.
type exchange struct {
	request Request
	fault   *fault
	flow    *flow // of a watch
}

// Start starts a proxy for a server on a free port of the loopback interface. The configuration is
// copied. The error is one of the plan or of the configuration.
func Start(target *rest.Config, plan Plan) (*Proxy, error) {
	if err := plan.validate(); err != nil {
		return nil, err
	}
	p := &Proxy{target: rest.CopyConfig(target), seed: plan.Seed, logged: make(chan struct{}), serving: make(chan struct{})}
	for i, rule := range plan.Rules {
		rule.Name = rule.name(i)
		p.rules = append(p.rules, arm(rule, plan.Seed))
	}
	if err := p.connect(); err != nil {
		return nil, fmt.Errorf("faultproxy: connect to %s: %w", target.Host, err)
	}
	p.stopped, p.stop = context.WithCancel(context.Background())
	if err := p.listen(); err != nil {
		p.stop()
		return nil, fmt.Errorf("faultproxy: listen: %w", err)
	}
	return p, nil
}

// connect prepares the way to the target.
func (p *Proxy) connect() error {
	host, _, err := rest.DefaultServerUrlFor(p.target)
	if err != nil {
		return err
	}
	security, err := rest.TLSConfigFor(p.target)
	if err != nil {
		return err
	}
	// A transport of its own, with nothing shared, so that Stop can close every connection.
	p.direct = &http.Transport{
		TLSClientConfig: security, DialContext: p.dial, Proxy: p.target.Proxy,
		ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 100,
	}
	authorized, err := rest.HTTPWrappersForConfig(p.target, p.direct)
	if err != nil {
		return err
	}
	p.reverse = httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(host) },
		Transport:  authorized,
		BufferPool: &buffers{},
		ErrorLog:   log.New(io.Discard, "", 0), // broken streams are its business
		// Watches have no length and are flushed at once for that reason.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return nil
}

// listen opens the port and serves it.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	p.config = rest.AnonymousClientConfig(p.target)
	p.config.Host = "https://" + listener.Addr().String()
	p.config.Dial, p.config.Proxy = nil, nil
	p.config.TLSClientConfig = rest.TLSClientConfig{CAData: certificate}
	p.server = &http.Server{
		Handler:     http.HandlerFunc(p.serve),
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		BaseContext: func(net.Listener) context.Context { return p.stopped },
		ErrorLog:    log.New(io.Discard, "", 0),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	go func() {
		defer close(p.serving)
		_ = p.server.ServeTLS(listener, "", "") // the pair is in the configuration; the end is Stop's doing
	}()
	return nil
}

// Config returns a configuration for a client of the proxy. It has no credentials, the proxy adds
// the target's; the rest is the target's but for its Wrap. It is the caller's.
func (p *Proxy) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Finish lets no request through any more, and returns when the server has answered the writes that
// were sent to it, also those whose client has gone. Stop ends the rest.
func (p *Proxy) Finish() {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.writes.Wait()
}

// Stop breaks all connections and returns when nothing of the proxy runs any more. It may be called
// repeatedly.
func (p *Proxy) Stop() {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.stop()
	_ = p.server.Close() // the listener's error is of no use to anyone
	<-p.serving
	p.exchanges.Wait()
	p.direct.CloseIdleConnections()
	p.mu.Lock()
	defer p.mu.Unlock()
	for open := range p.connections { // of HTTP/2, one is not idle until a moment after its last request has ended
		_ = open.Close() // its error is of no use to anyone
	}
}

// dial connects to the server, and keeps the connection for Stop to close.
func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connect := p.target.Dial
	if connect == nil {
		connect = (&net.Dialer{}).DialContext
	}
	made, err := connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return nil, errors.Join(errors.New("faultproxy: it is stopped"), made.Close())
	}
	if p.connections == nil {
		p.connections = map[net.Conn]bool{}
	}
	p.connections[made] = true
	return &connection{made, p}, nil
}

// connection is one to the server, which the proxy forgets when it is closed.
type connection struct {
	net.Conn
	proxy *Proxy
}

// Close closes the connection.
func (c *connection) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.connections, c.Conn)
	c.proxy.mu.Unlock()
	return c.Conn.Close()
}

// Set adds rules, each in the place of one of the same name if there is one, with counters at zero.
// A rule on the events of watches is laid on open ones too, each of which counts as a match. Rules
// need names.
func (p *Proxy) Set(rules ...Rule) error {
	if err := (Plan{Rules: rules}).validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range rules {
		if rule.Name == "" {
			return errors.New("faultproxy: set rule: it has no name")
		}
	}
	for _, rule := range rules {
		p.setLocked(arm(rule, p.seed))
	}
	return nil
}

func (p *Proxy) setLocked(rule *armed) {
	if at := slices.IndexFunc(p.rules, func(r *armed) bool { return r.Name == rule.Name }); at >= 0 {
		p.endLocked(p.rules[at])
		p.rules[at] = rule
	} else {
		p.rules = append(p.rules, rule)
	}
	if !rule.Do.ofWatch() {
		return
	}
	for _, open := range p.watches {
		if fault := decide([]*armed{rule}, open.request); fault != nil {
			p.recordLocked(fault, open.request, false)
			open.flow.lay(fault, time.Now())
		}
	}
}

// Release ends a rule: what it holds goes on, and it acts no more until it is set again.
func (p *Proxy) Release(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rule := p.ruleLocked(name)
	if rule == nil {
		return fmt.Errorf("faultproxy: release rule %q: there is no such rule", name)
	}
	p.endLocked(rule)
	return nil
}

func (p *Proxy) endLocked(rule *armed) {
	if rule.off {
		return
	}
	rule.off = true
	close(rule.released)
	for _, open := range p.watches {
		open.flow.lift(rule, time.Now())
	}
}

func (p *Proxy) ruleLocked(name string) *armed {
	for _, rule := range p.rules {
		if rule.Name == name {
			return rule
		}
	}
	return nil
}

// buffers keeps the copying of answers from allocating.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
