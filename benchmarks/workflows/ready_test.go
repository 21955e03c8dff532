package workflows

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/evenkeel/evenkeel/benchmarks/wire"
	"github.com/evenkeel/evenkeel/internal/testenv"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// plane is a control plane with simulated nodes, on which contenders take turns.
type plane struct {
	t          *testing.T
	config     *rest.Config
	admin      client.WithWatch
	namespaces int
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	started, err := testenv.StartSandbox(context.Background(), "--nodes", "5") // a hundred Pods each
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &plane{t: t, config: rest.CopyConfig(started.Config), admin: adminOf(t, started.Config)}
	p.config.QPS = -1
	if _, err := envtest.InstallCRDs(p.config, envtest.CRDInstallOptions{Paths: []string{testenv.WebPageCRDs()}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// contender starts an operator for the pages of a namespace.
type contender func(t *testing.T, config *rest.Config, namespace string) (stop func())

func startChain(t *testing.T, config *rest.Config, namespace string) (stop func()) {
	return startOurs(t, config, namespace, chain()).stop
}

// taken is what a round took.
type taken struct {
	each   []time.Duration // from the creation of a page until it was ready
	writes float64         // requests per page
}

// round lets a contender bring about so many pages at a time, after one of which the time does not
// count.
func (p *plane) round(start contender, pages int) taken {
	p.t.Helper()
	p.namespaces++
	namespace := fmt.Sprintf("ready-%d", p.namespaces)
	if err := p.admin.Create(p.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		p.t.Fatal(err)
	}
	events, err := p.admin.Watch(p.t.Context(), &v1.WebPageList{}, client.InNamespace(namespace))
	if err != nil {
		p.t.Fatal(err)
	}
	defer events.Stop()
	count, config := wire.NewCounter(0), rest.CopyConfig(p.config)
	config.Wrap(count.Wrap)
	stop := start(p.t, config, namespace)
	p.bring(events, namespace, "warm-up-", 1)
	took := p.bring(events, namespace, "page-", pages)
	stop()
	return taken{each: took, writes: float64(count.Counts().Writes) / float64(pages+1)} // what there is stays: to collect it would disturb the next
}

// bring creates pages and waits until all are ready.
func (p *plane) bring(events watch.Interface, namespace, name string, pages int) (took []time.Duration) {
	p.t.Helper()
	created := map[string]time.Time{}
	for i := range pages {
		o := &page{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(name, i)}, Spec: v1.WebPageSpec{HTML: "<html/>"}}
		created[o.Name] = time.Now()
		if err := p.admin.Create(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
	limit := time.After(2 * time.Minute)
	for len(created) > 0 {
		select {
		case event := <-events.ResultChan():
			o, is := event.Object.(*page)
			if !is {
				p.t.Fatalf("the watch ended: %v", event)
			}
			if began, waits := created[o.Name]; waits && isReady(o) {
				took = append(took, time.Since(began))
				delete(created, o.Name)
			}
		case <-limit:
			p.t.Fatalf("%d of %d pages of %s are not ready", len(created), pages, namespace)
		}
	}
	return took
}

func TestBothContendersBringAboutTheSame(t *testing.T) {
	p := newPlane(t)
	for name, start := range map[string]contender{"ours": startChain, "handwritten": startHandwritten} {
		t.Run(name, func(t *testing.T) {
			p := &plane{t: t, config: p.config, admin: p.admin, namespaces: p.namespaces + len(name)}
			// A ConfigMap, three Deployments, a Service and a status are the least.
			if took := p.round(start, 2); len(took.each) != 2 || took.writes < 6 {
				t.Errorf("%d pages are ready after %.1f writes each", len(took.each), took.writes)
			}
		})
	}
}
