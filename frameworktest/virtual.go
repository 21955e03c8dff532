package frameworktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// modelled is an API server in memory, in virtual time.
type modelled struct {
	model *apimodel.Model
	// settling holds an item while a goroutine waits for all others: two stories must not do so at
	// once. It is made in the bubble, in which a mutex would count as work.
	settling chan struct{}

	mu   sync.Mutex // guards below
	upTo int64      // the version that counted is about
	loud int        // the changes that are no noise, up to that version
}

// kindsOf reads the definitions of a scenario, once for all lives.
func kindsOf(s *Scenario) ([]apimodel.Kind, error) {
	var all []apimodel.Kind
	for folder := range strings.SplitSeq(s.CRDs, ",") {
		if folder = strings.TrimSpace(folder); folder == "" {
			continue
		}
		kinds, err := apimodel.CustomResources(folder)
		if err != nil {
			return nil, fmt.Errorf("frameworktest: Scenario: CRDs %q: %w", s.CRDs, err)
		}
		all = append(all, kinds...)
	}
	return all, nil
}

// sayIgnored logs which rules nobody has evaluated, at the end of the test.
func sayIgnored(t testing.TB, s *Scenario, kinds []apimodel.Kind) {
	for _, k := range kinds {
		if k.HasRules && s.Rules == nil {
			t.Cleanup(func() {
				fmt.Fprintf(t.Output(), "frameworktest: the CEL rules of %s are ignored; see Scenario.Rules\n", k.GroupVersionKind)
			})
		}
	}
}

// newModelled starts an API server with what else there is in the cluster, until ctx ends.
func newModelled(ctx context.Context, s *Scenario, kinds []apimodel.Kind) (*modelled, error) {
	model, err := apimodel.New(apimodel.Options{Kinds: kinds, Namespaces: true, Defaults: true, Rules: s.Rules, FirstVersion: 100_000})
	if err != nil {
		return nil, fmt.Errorf("frameworktest: %w", err)
	}
	actors.Start(ctx, model, actorsOf(s))
	return newInMemory(model), nil
}

// newInMemory returns an API server that is a model. It is called in the bubble of its life.
func newInMemory(model *apimodel.Model) *modelled {
	return &modelled{model: model, settling: make(chan struct{}, 1)}
}

// actorsOf returns who else acts in the world of a scenario.
func actorsOf(s *Scenario) actors.Options {
	if s.Cluster == Bare {
		return actors.Options{Only: actors.GarbageCollector | actors.Namespaces}
	}
	return actors.Options{}
}

func (m *modelled) config() *rest.Config { return m.model.Config() }

func (m *modelled) operators() *rest.Config { return m.model.Config() }

func (m *modelled) scope() []string { return nil }

func (m *modelled) namespace(_ context.Context, name string) (string, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	o.SetName(name)
	return name, m.model.Seed(o)
}

func (m *modelled) close() error { return nil }

func (m *modelled) isNamespaced(ctx context.Context, c *client.Client, o framework.Object) bool {
	return c.IsNamespaced(ctx, o)
}

func (m *modelled) changes() []change {
	history := m.model.History()
	all := make([]change, 0, len(history))
	for _, c := range history {
		what := c.Verb
		if c.Subresource != "" {
			what += " " + c.Subresource + " of"
		}
		all = append(all, change{
			version: c.Version, at: c.At, deleted: c.Event == watch.Deleted, resource: c.Resource, what: what, by: c.UserAgent, object: c.Object,
		})
	}
	return all
}

func (m *modelled) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.model.Since(m.upTo) {
		m.upTo = c.Version
		if !network.IsNoise(c.Object.GroupVersionKind().Group, c.Resource) {
			m.loud++
		}
	}
	return m.loud
}

func (m *modelled) version() (int64, error) {
	m.count()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.upTo, nil
}

func (m *modelled) isBusy() bool { return false }

func (m *modelled) pass(d time.Duration) {
	time.Sleep(d)
	m.settle()
}

func (m *modelled) settle() {
	if isVirtual() {
		m.settling <- struct{}{}
		synctest.Wait()
		<-m.settling
	}
}

// isVirtual reports whether the caller is in a bubble of virtual time, whose clock begins in 2000.
func isVirtual() bool { return time.Now().Year() < 2010 }

func (m *modelled) limits() limits {
	return limits{
		step: 2 * time.Minute, quiet: 10 * time.Minute, longest: 6 * time.Hour, silence: time.Hour, lags: []time.Duration{shortLag, longLag},
		// Renewals are rare, because they are most of what such a life costs.
		lease: 50 * time.Second, renew: 40 * time.Second, retry: 25 * time.Second, cut: 3 * time.Minute,
	}
}

func (m *modelled) weather(kind Point, on bool) {
	switch kind {
	case Gap:
		for _, plural := range m.model.Plurals() {
			m.model.Expire(plural)
		}
	case StaleServer:
		d := time.Duration(0)
		if on {
			d = 30 * time.Second
		}
		m.model.Stale(d)
	}
}

// lag delivers late what watches say.
func (m *modelled) lag(d time.Duration, of ...string) {
	if len(of) == 0 {
		of = m.model.Plurals()
	}
	for _, plural := range of {
		m.model.Lag(plural, d)
	}
}
