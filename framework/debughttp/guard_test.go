package debughttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// refusing is an API server that knows no token. It counts the questions.
func refusing(t *testing.T) (guard func(*http.Request) error, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(authentication.TokenReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}})
	}))
	t.Cleanup(api.Close)
	guard, err := Review(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	return guard, asked
}

func requestWith(authorization, path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", authorization)
	return r
}

// Whoever has no valid token costs one question in a while, and no memory, whatever paths he asks
// for.
func TestStrangersCostLittle(t *testing.T) {
	guard, asked := refusing(t)
	for i := range 100 {
		var refusal *Refusal
		if err := guard(requestWith("Bearer nobody", "/debug/pprof/"+strconv.Itoa(i))); !errors.As(err, &refusal) || refusal.Code != http.StatusUnauthorized {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions to the API server", n)
	}
	var refusal *Refusal
	if err := guard(requestWith("Bearer another", "/debug/pprof/"+strings.Repeat("x", 1000))); !errors.As(err, &refusal) || refusal.Code != http.StatusForbidden || asked.Load() != 1 {
		t.Errorf("a long path: %v, %d questions", err, asked.Load())
	}
}

func TestTheSchemeIsInAnyCase(t *testing.T) {
	guard, asked := refusing(t)
	for _, authorization := range []string{"", "Basic x", "Bearer", "Bearer "} {
		if err := guard(requestWith(authorization, "/metrics")); err == nil || asked.Load() != 0 {
			t.Errorf("%q: %v, %d questions", authorization, err, asked.Load())
		}
	}
	if err := guard(requestWith("bearer x", "/metrics")); err == nil || asked.Load() != 1 {
		t.Errorf("%v, %d questions", err, asked.Load())
	}
}

func TestARefusalWithoutASoundCodeIsAFailure(t *testing.T) {
	for _, refusal := range []*Refusal{nil, {Text: "no code"}, {Code: 200, Text: "fine"}, {Code: 1000}} {
		h := serving(t, Options{Operator: &patient{}, Metrics: http.NotFoundHandler(), Guard: func(*http.Request) error { return refusal }})
		if code, text := get(t, h, "/metrics"); code != http.StatusInternalServerError || text != "the request could not be checked" {
			t.Errorf("%+v: %d %q", refusal, code, text)
		}
	}
}

func TestNoPathLeadsAroundTheGuard(t *testing.T) {
	served := 0
	h := serving(t, Options{
		Operator: &patient{}, Profiles: true, Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		Guard: func(*http.Request) error { return &Refusal{Code: http.StatusForbidden, Text: "no"} },
	})
	for _, method := range []string{"GET", "HEAD", "POST", "CONNECT", "OPTIONS"} {
		for _, path := range []string{
			"//metrics", "/metrics/", "/%6detrics", "/debug/pprof/../../metrics", "/debug/pprof/%2e%2e/heap", "/debug/pprof",
			"/x/../metrics", "/metrics?x", "/healthz/../metrics",
		} {
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, httptest.NewRequest(method, path, nil)); w.Code == http.StatusOK || served > 0 {
				t.Errorf("%s %s: %d %q, metrics were served %d times", method, path, w.Code, w.Body, served)
			}
		}
	}
}
