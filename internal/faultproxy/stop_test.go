package faultproxy_test

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

func TestStopEndsEverything(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	w := b.listed()
	b.set(faultproxy.Action{Hold: true}, "create")
	held := make(chan error, 1)
	go func() {
		_, err := b.through.Create(b.ctx, configMap("a"), metav1.CreateOptions{})
		held <- err
	}()
	b.acted(1)
	if n, profile := proxyGoroutines(t); n < 3 {
		t.Errorf("only %d goroutines are seen as the proxy's:\n%s", n, profile)
	}
	b.proxy.Stop()
	b.proxy.Stop()
	if err := <-held; err == nil {
		t.Error("a held request succeeded")
	}
	for e := range w.ResultChan() {
		t.Logf("the watch ends with %+v", e)
	}
	if b.exists("a") {
		t.Error("a held request reached the server")
	}
	if _, err := b.through.List(b.ctx, metav1.ListOptions{}); err == nil {
		t.Error("a stopped proxy answers")
	}
	if err := b.proxy.Wait(b.ctx, "the fault", 99); err == nil {
		t.Error("waiting for a stopped proxy goes on")
	}
	// Goroutines of net/http end a moment after their connections, which nothing tells.
	err := wait.PollUntilContextTimeout(b.ctx, time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		n, _ := proxyGoroutines(t)
		return n == 0, nil
	})
	if n, profile := proxyGoroutines(t); err != nil {
		t.Errorf("%d goroutines are left:\n%s", n, profile)
	}
}

func TestFinishWaitsForWritesWhoseClientHasGone(t *testing.T) {
	b := newBench(t, runtime.ContentTypeJSON, faultproxy.Plan{})
	b.set(faultproxy.Action{Hold: true}, "create")
	before, err := faultproxy.Start(b.proxy.Config(), faultproxy.Plan{})
	must(t, err)
	defer before.Stop()
	client := clientset(t, before.Config()).CoreV1().ConfigMaps(b.ns)
	ctx, leave := context.WithCancel(b.ctx)
	left, finished := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := client.Create(ctx, configMap("a"), metav1.CreateOptions{})
		left <- err
	}()
	b.acted(1)
	leave()
	if err := <-left; err == nil {
		t.Error("the client got an answer")
	}
	go func() {
		before.Finish()
		close(finished)
	}()
	// Nothing tells that Finish waits; when it does not, this fails most of the time.
	select {
	case <-finished:
		t.Error("it is finished while the server has not answered")
	case <-time.After(50 * time.Millisecond):
	}
	b.release()
	<-finished
	if !b.exists("a") {
		t.Error("the write was taken back when its client went")
	}
	if _, err := client.Create(b.ctx, configMap("b"), metav1.CreateOptions{}); err == nil {
		t.Error("a finished proxy lets writes through")
	}
}

// proxyGoroutines counts those that run the proxy's code, a server, or the client that the standard
// library brings along for HTTP/2: nothing else in this process has servers, and client-go's client
// is another.
func proxyGoroutines(t *testing.T) (n int, profile string) {
	t.Helper()
	var stacks strings.Builder
	must(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		for _, mark := range []string{"/faultproxy.(*", "net/http.(*Server)", "net/http.(*conn)", "net/http.(*http2", "net/http/internal/http2."} {
			if strings.Contains(stack, mark) {
				n++
				break
			}
		}
	}
	return n, stacks.String()
}
