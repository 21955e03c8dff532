package sandbox

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
	"os"
	"path/filepath"
	"time"
)

const (
	// validity of certificates. Data folders may be opened for years.
	validity = 10 * 365 * 24 * time.Hour
	// backdating allows for a clock that is set back a little.
	backdating = time.Hour

	adminUser    = "evenkeel-admin"
	mastersGroup = "system:masters"
	proxyUser    = "front-proxy"
)

// pair is a certificate with its key, both in PEM.
type pair struct{ cert, key []byte }

// authority issues certificates. The zero value is not usable.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  pair
}

func newAuthority() (*authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := certificate(pkix.Name{CommonName: "evenkeel-sandbox"})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sandbox: create the certificate authority: %w", err)
	}
	return parseAuthority(pair{cert: certPEM(der), key: keyPEM})
}

func parseAuthority(p pair) (*authority, error) {
	certBlock, _ := pem.Decode(p.cert)
	keyBlock, _ := pem.Decode(p.key)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("the certificate authority is not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate authority: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the authority's key: %w", err)
	}
	return &authority{cert: cert, key: key, pem: p}, nil
}

// server issues a certificate for servers on this machine.
func (a *authority) server() (pair, error) {
	template, err := certificate(pkix.Name{CommonName: "localhost"})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return a.issue(template)
}

// client issues a certificate by which kube-apiserver knows its bearer as user.
func (a *authority) client(user string, groups ...string) (pair, error) {
	template, err := certificate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("sandbox: issue a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pair{cert: certPEM(der), key: keyPEM}, nil
}

func certificate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("sandbox: serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-backdating),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: generate a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("sandbox: encode a key: %w", err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// The files of a PKI folder.
const (
	fileCA        = "ca.crt"
	fileCAKey     = "ca.key"
	fileServer    = "server.crt"
	fileServerKey = "server.key"
	fileSAKey     = "service-account.key"
	fileProxyCA   = "front-proxy-ca.crt"
	fileProxy     = "front-proxy.crt"
	fileProxyKey  = "front-proxy.key"
	fileClient    = "client.crt"
	fileClientKey = "client.key"
)

// openPKI reads the authority from the folder, or makes it and all that belongs to
// it on first use. What is kept there stays the same for the life of the data:
// tokens in etcd are signed with its key.
func openPKI(folder string) (*authority, error) {
	cert, err := os.ReadFile(filepath.Join(folder, fileCA))
	if errors.Is(err, os.ErrNotExist) {
		return createPKI(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	key, err := os.ReadFile(filepath.Join(folder, fileCAKey))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	ca, err := parseAuthority(pair{cert: cert, key: key})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %s: %w", folder, err)
	}
	return ca, nil
}

func createPKI(folder string) (*authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	server, err := ca.server()
	if err != nil {
		return nil, err
	}
	_, saKey, err := newKey()
	if err != nil {
		return nil, err
	}
	// An authority of its own: whom it vouches for may act as anybody.
	proxyCA, err := newAuthority()
	if err != nil {
		return nil, err
	}
	proxy, err := proxyCA.client(proxyUser)
	if err != nil {
		return nil, err
	}
	// The authority's certificate comes last: it marks the folder as complete.
	files := []struct {
		name    string
		content []byte
	}{
		{fileServer, server.cert},
		{fileServerKey, server.key},
		{fileSAKey, saKey},
		{fileProxyCA, proxyCA.pem.cert},
		{fileProxy, proxy.cert},
		{fileProxyKey, proxy.key},
		{fileCAKey, ca.pem.key},
		{fileCA, ca.pem.cert},
	}
	for _, f := range files {
		if err := writeWhole(filepath.Join(folder, f.name), f.content); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	return ca, nil
}

// createEtcdPKI makes the certificates of etcd and its clients, and returns the authority and a
// client's. They have an authority of their own: any user of the cluster can have a certificate of
// the cluster's. Nothing in the data is signed with it, so each start makes it anew.
func createEtcdPKI(folder string) (*authority, pair, error) {
	fail := func(err error) (*authority, pair, error) { return nil, pair{}, err }
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fail(fmt.Errorf("sandbox: %w", err))
	}
	ca, err := newAuthority()
	if err != nil {
		return fail(err)
	}
	server, err := ca.server()
	if err != nil {
		return fail(err)
	}
	client, err := ca.client(APIServer)
	if err != nil {
		return fail(err)
	}
	for name, content := range map[string][]byte{
		fileCA: ca.pem.cert, fileServer: server.cert, fileServerKey: server.key,
		fileClient: client.cert, fileClientKey: client.key,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return fail(fmt.Errorf("sandbox: %w", err))
		}
	}
	return ca, client, nil
}
