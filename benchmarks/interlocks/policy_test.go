package interlocks

import (
	"bytes"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/await"
	"github.com/evenkeel/evenkeel/framework/interlock"
)

// measureBorn returns what a guard asks of providers that an admission policy has had born with the
// finalizer.
func (s *server) measureBorn(providers int) requests {
	s.t.Helper()
	at := s.newSiteAfter((*site).installPolicy, providers)
	at.startGuard()
	at.quiet()
	return at.ofGuard.now()
}

// installPolicy applies the guard's policy, and waits until a dry run shows it.
func (s *site) installPolicy() {
	s.t.Helper()
	manifest, err := (&guard{Relation: relation()}).Policy(corev1.SchemeGroupVersion.WithResource("configmaps"), interlock.PolicyOptions{Namespaces: []string{s.namespace}})
	noError(s.t, err)
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 1<<10); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.t.Fatal(err)
		}
		noError(s.t, s.admin.Create(s.t.Context(), o))
	}
	await.NoError(s.t, "the policy is in force", func() error {
		o := s.provider(0)
		if err := s.admin.Create(s.t.Context(), o, client.DryRunAll); err != nil {
			return err
		}
		return await.AtLeast(len(o.Finalizers), 1)
	})
}

func TestAPolicySavesTheGuardTheFinalizer(t *testing.T) {
	if found := newServer(t).measureBorn(2); found.writes() != 0 {
		t.Errorf("the guard wrote: %s", found.per(2))
	}
}
