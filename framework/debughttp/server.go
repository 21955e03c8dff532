package debughttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// DefaultAddress is the address of a zero [Options].
const DefaultAddress = "localhost:8080"

// Operator is what probes ask: a framework.Operator.
type Operator interface {
	Alive() error
	Ready() error
}

// Options configures a [Server].
type Options struct {
	// Address to listen on, as for net.Listen. Default: [DefaultAddress]. With the port 0, a free one
	// is chosen: see [Server.Address].
	Address string
	// Operator is asked by the probes. Required.
	Operator Operator
	// Metrics serves /metrics. Default: none.
	Metrics http.Handler
	// Pages serves /debug/evenkeel/: see package why. Default: none.
	Pages http.Handler
	// Profiles serves /debug/pprof/. A profile shows names of functions and, of goroutines, parts of
	// what they work on. Default: none.
	Profiles bool
	// Guard decides about each request but those of probes. An error refuses the request; see
	// [Refusal]. Default: nobody is refused.
	Guard func(*http.Request) error
	// CertFile and KeyFile are the PEM files of a certificate, for HTTPS. They are read again when
	// they change, so certificates can rotate. Default: HTTP.
	CertFile, KeyFile string
}

func (o *Options) validate() error {
	var errs []error
	if o.Operator == nil {
		errs = append(errs, errors.New("debughttp: Options: Operator must be set"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, fmt.Errorf("debughttp: Options: CertFile %q and KeyFile %q: set both or none", o.CertFile, o.KeyFile))
	}
	return errors.Join(errs...)
}

// Server is a listener that is bound and does not serve yet.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// shutdownTime is how long requests in flight may take at the end.
const shutdownTime = 5 * time.Second

// Listen binds the address, so that a port in use shows before the operator starts. The caller must
// call [Server.Run] or [Server.Close].
func Listen(o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	var config *tls.Config
	if o.CertFile != "" {
		pair := &keyPair{certFile: o.CertFile, keyFile: o.KeyFile}
		if _, err := pair.certificate(nil); err != nil {
			return nil, err
		}
		config = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.certificate}
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("debughttp: Options: Address %q: %w", o.Address, err)
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	return &Server{listener, &http.Server{Handler: handler(o), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}}, nil
}

// Address returns the address that the server listens on.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Close ends a server that is not run.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends, and returns nil then. Requests in flight may take 5 s longer.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("debughttp: %s: %w", s.Address(), err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-served
	return nil
}

// Handler returns what a [Server] of these options serves, for a listener of your own. Address and
// the certificate are not used.
func Handler(o Options) (http.Handler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return handler(o), nil
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", probe(o.Operator.Alive))
	mux.Handle("GET /readyz", probe(o.Operator.Ready))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", guarded(o.Guard, o.Metrics))
	}
	if o.Pages != nil {
		mux.Handle("GET /debug/evenkeel/", guarded(o.Guard, o.Pages))
	}
	if o.Profiles {
		mux.Handle("GET /debug/pprof/{name...}", guarded(o.Guard, http.HandlerFunc(profile)))
	}
	return mux
}

// probe answers with the problem that a question has found.
func probe(ask func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := ask(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}
