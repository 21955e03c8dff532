package testenv_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

func startStale(t *testing.T) *testenv.StaleServer {
	t.Helper()
	stale, err := env.StartStaleServer()
	must(t, err)
	t.Cleanup(func() { must(t, stale.Stop()) })
	return stale
}

// cached returns the data of a config map in a server's cache.
func cached(t *testing.T, ctx context.Context, maps typedcorev1.ConfigMapInterface, name string) string {
	t.Helper()
	list, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	must(t, err)
	for _, item := range list.Items {
		if item.Name == name {
			return item.Data["data"]
		}
	}
	return ""
}

// becomes waits until it is there; nothing tells when a cache has caught up.
func becomes(t *testing.T, ctx context.Context, maps typedcorev1.ConfigMapInterface, name, data string) {
	t.Helper()
	must(t, wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		return cached(t, ctx, maps, name) == data, nil
	}))
}

func TestAPausedServerServesThePast(t *testing.T) {
	ctx, client, ns := start(t)
	stale := startStale(t)
	healthy, old := client.CoreV1().ConfigMaps(ns), clientset(t, stale.Config).CoreV1().ConfigMaps(ns)
	first, err := healthy.Create(ctx, configMap("a", "1"), metav1.CreateOptions{})
	must(t, err)
	becomes(t, ctx, old, "a", "1")

	stale.Pause()
	stale.Pause()
	_, err = healthy.Update(ctx, configMap("a", "2"), metav1.UpdateOptions{})
	must(t, err)
	becomes(t, ctx, healthy, "a", "2")
	// Writes and consistent reads work through the paused server.
	_, err = old.Create(ctx, configMap("b", "1"), metav1.CreateOptions{})
	must(t, err)
	now, err := old.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if now.Data["data"] != "2" {
		t.Errorf("a consistent read returns %v", now.Data)
	}
	consistent, err := old.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(consistent.Items) < 2 {
		t.Errorf("a consistent list has %d items", len(consistent.Items))
	}
	becomes(t, ctx, healthy, "b", "1")
	if a, b := cached(t, ctx, old, "a"), cached(t, ctx, old, "b"); a != "1" || b != "" {
		t.Errorf("the paused server serves a=%q b=%q", a, b)
	}
	w, err := old.Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion, FieldSelector: "metadata.name=a"})
	must(t, err)
	defer w.Stop()
	select {
	case e := <-w.ResultChan():
		t.Errorf("the paused server's watch has %+v", e)
	default:
	}

	stale.Resume()
	if e := <-w.ResultChan(); e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).Data["data"] != "2" {
		t.Errorf("after it was resumed its watch has %+v", e)
	}
	becomes(t, ctx, old, "a", "2")
	becomes(t, ctx, old, "b", "1")
}

func TestTheSecondServerKnowsTheFirstOnesTokens(t *testing.T) {
	ctx, client, ns := start(t)
	stale := startStale(t)
	_, err := client.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	must(t, err)
	token, err := client.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "a", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(stale.Config)
	config.BearerToken = token.Status.Token
	self, err := clientset(t, config).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if got, want := self.Status.UserInfo.Username, "system:serviceaccount:"+ns+":a"; got != want {
		t.Errorf("the second server knows %q, not %q", got, want)
	}
}
