package write

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
)

// transport answers requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cutOff is a body that fails after some bytes: with err or, if there is none, when the request
// ends.
type cutOff struct {
	io.Reader
	request context.Context //nolint:containedctx // it is that of the body's request
	err     error
}

func (b cutOff) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	if b.err == nil {
		<-b.request.Done()
		return 0, b.request.Err()
	}
	return 0, b.err
}

func (cutOff) Close() error { return nil }

func TestAnAnswerThatIsCutOffPasses(t *testing.T) {
	for name, err := range map[string]error{
		"the end": io.ErrUnexpectedEOF, "a timeout": nil, "a lost connection": errors.New("http2: client connection lost"),
	} {
		clients := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://x", Transport: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: cutOff{strings.NewReader(`{"items":[`), r.Context(), err},
			}, nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, got := clients.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		cancel()
		if !isPassing(got) {
			t.Errorf("%s does not pass: %T %v", name, got, got)
		}
	}
}

func TestWhatPassesAndWhatLasts(t *testing.T) {
	resource := schema.GroupResource{Resource: "pages"}
	for _, c := range []struct {
		err    error
		passes bool
	}{
		{nil, false},
		{apierrors.NewForbidden(resource, "", errors.New("no")), false},
		{apierrors.NewNotFound(resource, "p"), false},
		{&meta.NoKindMatchError{}, false},
		{errors.Join(client.ErrUndecodable, errors.New("no number")), false},
		{safely.Try(func() error { panic("boom") }), false},
		{apierrors.NewInternalError(errors.New("no")), true},
		{apierrors.NewTooManyRequests("no", 1), true},
		{fmt.Errorf("list: %w", apierrors.NewServiceUnavailable("no")), true},
		{context.DeadlineExceeded, true},
	} {
		if isPassing(c.err) != c.passes {
			t.Errorf("passes: %v, want %v: %v", !c.passes, c.passes, c.err)
		}
	}
}
