package testenv_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

func TestASecondEtcdHasOneResourceAndTheFirstTheRest(t *testing.T) {
	ctx := t.Context()
	two, err := testenv.StartWithSecondEtcd(schema.GroupResource{Resource: "configmaps"}, testenv.WebPageCRDs())
	must(t, err)
	t.Cleanup(func() { must(t, two.Stop()) })
	first, err := two.Truth(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, first.Stop()) })
	second, err := two.SecondTruth(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, second.Stop()) })

	client := clientset(t, two.Config)
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	must(t, err)
	_, err = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	for _, c := range []struct {
		truth      *testenv.Truth
		has, lacks string
	}{
		{first, "/registry/secrets/default/a", "/registry/configmaps/"},
		{second, "/registry/configmaps/default/a", "/registry/secrets/"},
	} {
		must(t, c.truth.WaitNow(ctx))
		events := c.truth.Events()
		if !slices.ContainsFunc(events, func(e testenv.Event) bool { return e.Key == c.has }) {
			t.Errorf("%s is not among %v", c.has, events)
		}
		if slices.ContainsFunc(events, func(e testenv.Event) bool { return strings.HasPrefix(e.Key, c.lacks) }) {
			t.Errorf("there is something of %s among %v", c.lacks, events)
		}
	}
	if _, err := two.StartStaleServer(); err == nil {
		t.Error("a second API server is started without the second etcd")
	}
	if _, err := env.SecondTruth(ctx); err == nil {
		t.Error("an Env without a second etcd tells its truth")
	}
}

// TestCustomResourcesStayInTheFirstEtcd is why the tests of two stores use built-in kinds.
func TestCustomResourcesStayInTheFirstEtcd(t *testing.T) {
	ctx := t.Context()
	pages := schema.GroupResource{Group: "samples.evenkeel.dev", Resource: "webpages"}
	two, err := testenv.StartWithSecondEtcd(pages, testenv.WebPageCRDs())
	must(t, err)
	t.Cleanup(func() { must(t, two.Stop()) })
	first, err := two.Truth(ctx)
	must(t, err)
	t.Cleanup(func() { must(t, first.Stop()) })
	createPage(t, two.Config, "default", "a")
	must(t, first.WaitNow(ctx))
	if key := "/registry/" + pages.Group + "/webpages/default/a"; !slices.ContainsFunc(first.Events(), func(e testenv.Event) bool { return e.Key == key }) {
		t.Errorf("%s is not in the first etcd", key)
	}
}
