package testenv

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// StaleServer is a second API server over the same etcd, whose watches of etcd can be paused: what
// it serves from its cache is then old, while writes and consistent reads still work through it.
type StaleServer struct {
	// Config is the administrator's of the Env, for this server.
	Config *rest.Config

	way    *etcdWay
	server *envtest.APIServer
}

// StartStaleServer starts a second API server, which is up to date until it is paused. Stop it
// before the Env.
func (e *Env) StartStaleServer() (*StaleServer, error) {
	if e.second != nil {
		return nil, errors.New("testenv: start a second API server: it would not know of the second etcd")
	}
	way, err := openEtcdWay(e.environment.ControlPlane.Etcd.URL.Host)
	if err != nil {
		return nil, fmt.Errorf("testenv: open a way to etcd: %w", err)
	}
	first := e.environment.ControlPlane.APIServer
	second := (&envtest.ControlPlane{}).GetAPIServer()
	second.Path = first.Path
	second.EtcdURL = &url.URL{Scheme: "http", Host: way.address}
	second.StartTimeout, second.StopTimeout = time.Minute, time.Minute
	// The same clients and service accounts are known to both.
	second.Authn = first.Authn
	second.Configure().
		Set("service-account-issuer", first.SecureServing.URL("https", "/").String()).
		Set("service-account-key-file", filepath.Join(first.CertDir, "sa-signer.crt")).
		Set("service-account-signing-key-file", filepath.Join(first.CertDir, "sa-signer.key")).
		// Watches that are under way would hold up its end for a minute.
		Set("shutdown-watch-termination-grace-period", "1s")
	// A folder of ours outlives a restart, with the certificates in it.
	if second.CertDir, err = os.MkdirTemp("", "evenkeel-apiserver-"); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: start a second API server: %w", err), way.close())
	}
	if err := second.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: start a second API server: %w", err), second.Stop(), os.RemoveAll(second.CertDir), way.close())
	}
	config := rest.CopyConfig(e.Config)
	config.Host = second.SecureServing.URL("https", "").String()
	config.CAData = second.SecureServing.CA
	return &StaleServer{Config: config, way: way, server: second}, nil
}

// Pause lets nothing pass any more that etcd's watches tell the server. What they told before may
// still be on its way into the cache.
func (s *StaleServer) Pause() { s.way.watches.shut() }

// Resume lets the watches go on; the server catches up.
func (s *StaleServer) Resume() { s.way.watches.open() }

// Restart stops the server, lets something happen meanwhile, and starts it again at the same
// address.
func (s *StaleServer) Restart(meanwhile func()) error {
	if err := s.server.Stop(); err != nil {
		return fmt.Errorf("testenv: restart the second API server: %w", err)
	}
	meanwhile()
	if err := s.server.Start(); err != nil {
		return fmt.Errorf("testenv: restart the second API server: %w", err)
	}
	return nil
}

// Stop stops the server.
func (s *StaleServer) Stop() error {
	return errors.Join(s.server.Stop(), os.RemoveAll(s.server.CertDir), s.way.close())
}

// etcdWay is a gRPC server that passes everything on to etcd, and etcd's watches through a gate.
type etcdWay struct {
	address string
	watches *gate
	server  *grpc.Server
	etcd    *grpc.ClientConn
	served  chan error
}

func openEtcdWay(etcd string) (*etcdWay, error) {
	connection, err := grpc.NewClient("passthrough:///"+etcd,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	way := &etcdWay{address: listener.Addr().String(), watches: newGate(), etcd: connection, served: make(chan error, 1)}
	way.server = newPassThrough(connection, way.watches)
	go func() { way.served <- way.server.Serve(listener) }()
	return way, nil
}

func (w *etcdWay) close() error {
	w.server.Stop()
	return errors.Join(<-w.served, w.etcd.Close())
}
