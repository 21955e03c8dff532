package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// apiServer is one kube-apiserver, at a port that is its own as long as the test process lives.
type apiServer struct {
	*process
	config *rest.Config // an administrator's
	held   int          // the socket that holds the port
	http   *http.Client
}

// newAPIServer returns one that keeps its log in the folder, and believes the certificates and keys
// in another one; flags have no dashes.
func newAPIServer(folder, keys, etcd string, flags map[string]string) (_ *apiServer, err error) {
	held, port, err := holdPort()
	if err != nil {
		return nil, fmt.Errorf("testenv: find a port for the API server: %w", err)
	}
	s := &apiServer{held: held, config: &rest.Config{
		Host: "https://" + net.JoinHostPort(loopback.String(), strconv.Itoa(port)),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: filepath.Join(keys, servingCert), CertFile: filepath.Join(keys, adminCert), KeyFile: filepath.Join(keys, adminKey),
		},
		QPS: 1000, Burst: 2000,
	}}
	if err := rest.LoadTLSFiles(s.config); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: %w", err), s.close())
	}
	ours := map[string]string{
		"bind-address": loopback.String(), "advertise-address": loopback.String(), "secure-port": strconv.Itoa(port),
		"permit-port-sharing": "true", // with the socket that holds it
		"etcd-servers":        etcd,
		"tls-cert-file":       filepath.Join(keys, servingCert), "tls-private-key-file": filepath.Join(keys, servingKey),
		"client-ca-file":         filepath.Join(keys, adminCert),
		"service-account-issuer": "https://kubernetes.default.svc", "service-account-key-file": filepath.Join(keys, servingCert),
		"service-account-signing-key-file": filepath.Join(keys, servingKey),
		"service-cluster-ip-range":         "10.0.0.0/24",
		"authorization-mode":               "RBAC",
		"allow-privileged":                 "true",
		// Without controllers there are no service accounts, and the plugin refuses Pods for that.
		"disable-admission-plugins": "ServiceAccount",
		// A loopback address cannot be an endpoint.
		"endpoint-reconciler-type": "none",
		// Watches that are under way would hold up its end for a minute.
		"shutdown-watch-termination-grace-period": "1s",
	}
	for name, value := range flags {
		ours[name] = value
	}
	var args []string
	for name, value := range ours {
		args = append(args, "--"+name+"="+value)
	}
	s.process = newProcess(folder, "kube-apiserver", args...)
	if s.http, err = rest.HTTPClientFor(s.config); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: %w", err), s.close())
	}
	return s, nil
}

func (s *apiServer) start() error { return s.process.start(s.http, s.config.Host+"/readyz") }

// close gives its port up.
func (s *apiServer) close() error { return os.NewSyscallError("close", unix.Close(s.held)) }

var loopback = net.IPv4(127, 0, 0, 1)

// holdPort binds a socket to a free port, and does not listen. No other program gets the port then,
// unless it shares ports and names this one.
func holdPort() (socket, port int, err error) {
	syscall.ForkLock.RLock() // no child inherits it
	defer syscall.ForkLock.RUnlock()
	if socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return 0, 0, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(socket)
	err = errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)),
		os.NewSyscallError("bind", unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte(loopback.To4())})),
	)
	if err != nil {
		return 0, 0, errors.Join(err, unix.Close(socket))
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		return 0, 0, errors.Join(os.NewSyscallError("getsockname", err), unix.Close(socket))
	}
	return socket, address.(*unix.SockaddrInet4).Port, nil
}

// The files of a folder of keys.
const (
	servingCert = "serving.crt"
	servingKey  = "serving.key" // signs tokens of service accounts, too
	adminCert   = "admin.crt"
	adminKey    = "admin.key"
)

// writeKeys makes a folder of certificates that sign themselves: one for API servers, and one for
// an administrator.
func writeKeys(folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("testenv: make keys: %w", err)
	}
	serving := x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{loopback}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	admin := x509.Certificate{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	err := errors.Join(
		writePair(serving, filepath.Join(folder, servingCert), filepath.Join(folder, servingKey)),
		writePair(admin, filepath.Join(folder, adminCert), filepath.Join(folder, adminKey)),
	)
	if err != nil {
		return fmt.Errorf("testenv: make keys: %w", err)
	}
	return nil
}

// writePair writes a certificate that signs itself, and its key.
func writePair(of x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	of.SerialNumber = big.NewInt(1)
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(30*24*time.Hour)
	of.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := x509.CreateCertificate(rand.Reader, &of, &of, key.Public(), key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600),
	)
}
