package debughttp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patient is an operator.
type patient struct{ alive, ready error }

func (p *patient) Alive() error { return p.alive }
func (p *patient) Ready() error { return p.ready }

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func serving(t *testing.T, o Options) http.Handler {
	t.Helper()
	h, err := Handler(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestProbesSayWhatIsWrong(t *testing.T) {
	op := &patient{}
	h := serving(t, Options{Operator: op, Guard: func(*http.Request) error { return errors.New("nobody") }})
	expect := func(path string, code int, text string) {
		t.Helper()
		if got, body := get(t, h, path); got != code || body != text {
			t.Errorf("%s: %d %q, want %d %q", path, got, body, code, text)
		}
	}
	expect("/healthz", 200, "ok")
	expect("/readyz", 200, "ok")
	op.ready = errors.New("the watch of ConfigMaps fails")
	expect("/healthz", 200, "ok")
	expect("/readyz", 503, "the watch of ConfigMaps fails")
	op.alive = errors.New("a run hangs")
	expect("/healthz", 503, "a run hangs")
}

func TestWhatIsNotAskedForIsNotServed(t *testing.T) {
	h := serving(t, Options{Operator: &patient{}})
	for _, path := range []string{"/metrics", "/debug/evenkeel/", "/debug/pprof/", "/debug/pprof/heap", "/"} {
		if code, _ := get(t, h, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if _, pattern := http.DefaultServeMux.Handler(httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)); pattern != "" {
		t.Errorf("the default mux serves %s", pattern)
	}
}

func TestGuardsDecideAboutAllButProbes(t *testing.T) {
	var answer error
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "runs 1") })
	h := serving(t, Options{Operator: &patient{}, Metrics: metrics, Pages: metrics, Profiles: true, Guard: func(*http.Request) error { return answer }})
	for _, c := range []struct {
		answer error
		code   int
		text   string
	}{
		{nil, 200, "runs 1"},
		{&Refusal{Code: 401, Text: "who are you?"}, 401, "who are you?"},
		{&Refusal{Code: 403, Text: "you may not"}, 403, "you may not"},
		{errors.New("dial 10.0.0.1: refused"), 500, "the request could not be checked"},
	} {
		answer = c.answer
		if code, text := get(t, h, "/metrics"); code != c.code || text != c.text {
			t.Errorf("%v: %d %q", c.answer, code, text)
		}
		if code, _ := get(t, h, "/debug/evenkeel/pages"); code != c.code {
			t.Errorf("%v: %d for a page", c.answer, code)
		}
		if code, _ := get(t, h, "/debug/pprof/heap"); code != c.code {
			t.Errorf("%v: %d for a profile", c.answer, code)
		}
		if code, _ := get(t, h, "/healthz"); code != 200 {
			t.Errorf("%v: %d for a probe", c.answer, code)
		}
	}
}

func TestProfiles(t *testing.T) {
	h := serving(t, Options{Operator: &patient{}, Profiles: true})
	for _, c := range []struct {
		path string
		code int
		text string
	}{
		{"/debug/pprof/", 200, "heap ("},
		{"/debug/pprof/heap", 200, "\x1f\x8b"},
		{"/debug/pprof/goroutine?debug=1", 200, "goroutine profile: total"},
		{"/debug/pprof/nothing", 404, `there is no profile "nothing"`},
		{"/debug/pprof/profile?seconds=0.2", 200, "\x1f\x8b"},
		{"/debug/pprof/profile?seconds=x", 400, `seconds="x": must be a number above 0, and at most 300`},
		{"/debug/pprof/profile?seconds=301", 400, `seconds="301"`},
		{"/debug/pprof/trace?seconds=NaN", 400, `seconds="NaN"`},
		{"/debug/pprof/trace?seconds=-1", 400, `seconds="-1"`},
	} {
		if code, text := get(t, h, c.path); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %.60q", c.path, code, text)
		}
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for text, o := range map[string]Options{
		"Operator must be set":                                {},
		`CertFile "a" and KeyFile "": set both or none`:       {Operator: &patient{}, CertFile: "a"},
		`Address "nowhere"`:                                   {Operator: &patient{}, Address: "nowhere"},
		`Address "` + taken.Addr().String() + `": listen tcp`: {Operator: &patient{}, Address: taken.Addr().String()},
		`CertFile "none", KeyFile "none either"`:              {Operator: &patient{}, CertFile: "none", KeyFile: "none either"},
	} {
		if s, err := Listen(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", o, err, text)
			if err == nil {
				_ = s.Close()
			}
		}
	}
}

// certify returns a new certificate of a name for localhost, and its key, as PEM.
func certify(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", encoded)
}

func TestAServerServesAndEnds(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	cert, key := certify(t, "one")
	for file, text := range map[string]string{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Listen(Options{Operator: &patient{}, Address: "localhost:0", CertFile: certFile, KeyFile: keyFile})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := client.Get("https://" + s.Address() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != 200 || response.TLS.PeerCertificates[0].Subject.CommonName != "one" {
		t.Errorf("%d by certificate %v", response.StatusCode, response.TLS.PeerCertificates[0].Subject)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Address()); err == nil {
		t.Error("it still listens")
	}
}
