package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answering is a transport that answers everything with one status code.
func answering(code int, err error) http.RoundTripper {
	return roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: http.NoBody}, err
	})
}

func send(t *testing.T, through http.RoundTripper, method, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://server"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := through.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
}

func TestCounterSortsRequests(t *testing.T) {
	for _, c := range []struct {
		method, url string
		code        int
		err         error
		want        Counts
	}{
		{"GET", "/api/v1/configmaps/a", 200, nil, Counts{Reads: 1}},
		{"GET", "/api/v1/configmaps/a", 404, nil, Counts{Reads: 1, Failures: 1}},
		{"GET", "/api/v1/configmaps?watch=true", 200, nil, Counts{Watches: 1}},
		{"GET", "/api/v1/configmaps?watch=1", 200, nil, Counts{Watches: 1}},
		{"POST", "/api/v1/configmaps", 201, nil, Counts{Writes: 1}},
		{"PUT", "/api/v1/configmaps/a", 409, nil, Counts{Writes: 1, Conflicts: 1}},
		{"PATCH", "/api/v1/configmaps/a/status", 500, nil, Counts{Writes: 1, Failures: 1}},
		{"DELETE", "/api/v1/configmaps/a", 0, errors.New("lost"), Counts{Writes: 1, Failures: 1}},
	} {
		counter := NewCounter(1)
		send(t, counter.Wrap(answering(c.code, c.err)), c.method, c.url)
		if got := counter.Counts(); got != c.want {
			t.Errorf("%s %s answered with %d: %+v, want %+v", c.method, c.url, c.code, got, c.want)
		}
		if !counter.DoneAt().IsZero() {
			t.Errorf("%s %s answered with %d: it is done", c.method, c.url, c.code)
		}
	}
}

func TestCounterIsDoneOnceTheStatusOfEveryObjectIsWritten(t *testing.T) {
	counter := NewCounter(2)
	succeeding, conflicting := counter.Wrap(answering(200, nil)), counter.Wrap(answering(409, nil))
	for _, step := range []struct {
		through http.RoundTripper
		method  string
		url     string
		done    bool
	}{
		{succeeding, "PUT", "/pages/a/status", false},
		{succeeding, "PATCH", "/pages/a/status", false},
		{conflicting, "PUT", "/pages/b/status", false},
		{succeeding, "PUT", "/pages/b", false},
		{succeeding, "GET", "/pages/b/status", false},
		{succeeding, "PUT", "/pages/b/status", true},
		{succeeding, "PUT", "/pages/c/status", true},
	} {
		send(t, step.through, step.method, step.url)
		select {
		case <-counter.Done():
			if !step.done {
				t.Fatalf("done too early: after %s %s", step.method, step.url)
			}
		default:
			if step.done {
				t.Fatalf("not done after %s %s", step.method, step.url)
			}
		}
	}
	if counter.DoneAt().After(counter.LastWrite()) {
		t.Error("done after the last write")
	}
}

// watching sends a watch through a lag and returns its end that the server writes to and the one
// that the client reads from.
func watching(t *testing.T, lag Lag, query string) (*io.PipeWriter, io.ReadCloser) {
	t.Helper()
	reader, writer := io.Pipe()
	through := lag.Wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: reader}, nil
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/pages?watch=true"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := through.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return writer, response.Body
}

func TestLagShiftsWhatFollowsTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := watching(t, Lag(time.Second), "&sendInitialEvents=true")
		started := time.Now()
		go func() {
			half := len(metav1.InitialEventsAnnotationKey) / 2
			for _, part := range []string{
				"item,", metav1.InitialEventsAnnotationKey[:half], metav1.InitialEventsAnnotationKey[half:] + ",",
			} {
				_, _ = io.WriteString(server, part)
			}
			_, _ = io.WriteString(server, "first,")
			time.Sleep(300 * time.Millisecond) // the time between two events, in virtual time
			_, _ = io.WriteString(server, "second,")
			_ = server.Close()
		}()
		var all strings.Builder
		for _, want := range []struct {
			through string
			after   time.Duration
		}{
			{"item," + metav1.InitialEventsAnnotationKey + ",", 0},
			{"first,", time.Second},
			{"second,", 1300 * time.Millisecond},
		} {
			got := make([]byte, len(want.through))
			if _, err := io.ReadFull(client, got); err != nil || string(got) != want.through {
				t.Fatalf("read %q after %q: %v; want %q", got, all.String(), err, want.through)
			}
			if after := time.Since(started); after != want.after {
				t.Errorf("%q came after %v, want %v", got, after, want.after)
			}
			all.Write(got)
		}
		for range 2 {
			if _, err := client.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
		}
	})
}

func TestLagShiftsAllOfAWatchWithoutAFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := watching(t, Lag(time.Second), "")
		started := time.Now()
		go func() { _, _ = io.WriteString(server, "event") }()
		if _, err := io.ReadFull(client, make([]byte, 5)); err != nil || time.Since(started) != time.Second {
			t.Errorf("it came after %v: %v", time.Since(started), err)
		}
		_ = client.Close()
	})
}

func TestCloseEndsAReadThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := watching(t, Lag(time.Hour), "")
		ended := make(chan error, 1)
		go func() {
			_, err := client.Read(make([]byte, 1))
			ended <- err
		}()
		_, _ = io.WriteString(server, "event")
		synctest.Wait()
		_ = client.Close()
		if err := <-ended; !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("the read ended with %v", err)
		}
	})
}

func TestLagEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		body := newLateBody(ctx, reader, time.Hour, true)
		_, _ = io.WriteString(writer, "event")
		cancel()
		if _, err := body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("the read ended with %v", err)
		}
		_ = body.Close()
	})
}

func TestLagLeavesOtherRequestsAlone(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/pages", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := Lag(time.Hour).Wrap(answering(200, nil)).RoundTrip(request)
	if err != nil || response.Body != http.NoBody {
		t.Errorf("the body of a list was replaced: %v", err)
	}
	_ = response.Body.Close()
}
