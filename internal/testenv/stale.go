package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// StaleServer is a second API server over the same etcd, whose watches of etcd can be paused: what
// it serves from its cache is then old, while writes and consistent reads still work through it.
type StaleServer struct {
	// Config is the administrator's of the Env, for this server.
	Config *rest.Config

	way    *etcdWay
	server *apiServer
}

// StartStaleServer starts a second API server, which is up to date until it is paused. It knows the
// same clients and service accounts as the first. Stop it before the Env.
func (e *Env) StartStaleServer() (*StaleServer, error) {
	if e.second != nil {
		return nil, errors.New("testenv: start a second API server: it would not know of the second etcd")
	}
	folder, err := os.MkdirTemp(e.folder, "stale-")
	if err != nil {
		return nil, fmt.Errorf("testenv: start a second API server: %w", err)
	}
	way, err := openEtcdWay(filepath.Join(folder, "socket"), e.etcd.socket())
	if err != nil {
		return nil, fmt.Errorf("testenv: open a way to etcd: %w", err)
	}
	server, err := newAPIServer(folder, e.keys(), way.url(), nil)
	if err != nil {
		return nil, errors.Join(err, way.close())
	}
	s := &StaleServer{Config: server.config, way: way, server: server}
	if err := server.start(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Pause lets nothing pass any more that etcd's watches tell the server. What they told before may
// still be on its way into the cache.
func (s *StaleServer) Pause() { s.way.watches.shut() }

// Resume lets the watches go on; the server catches up.
func (s *StaleServer) Resume() { s.way.watches.open() }

// Restart stops the server, lets something happen meanwhile, and starts it again at the same
// address.
func (s *StaleServer) Restart(meanwhile func()) error {
	if err := s.server.stop(); err != nil {
		return err
	}
	meanwhile()
	return s.server.start()
}

// Stop stops the server.
func (s *StaleServer) Stop() error {
	return errors.Join(s.server.kill(), s.server.close(), s.way.close())
}
