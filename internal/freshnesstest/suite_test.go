package freshnesstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

type (
	page        = webpagev1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
)

var (
	env    *testenv.Env
	admin  *client.Client // of the foreign clients: around the proxy
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return 1, err
	}
	if err := webpagev1.AddToScheme(scheme); err != nil {
		return 1, err
	}
	addTools(scheme)
	if env, err = testenv.Start(testenv.WebPageCRDs(), filepath.Join("testdata", "crds")); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
	}()
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	if admin, err = client.New(config, scheme); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// seedOf is the seed of a run: the one that is asked for, or a fresh one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	given := os.Getenv("FRESHNESS_SEED")
	if given == "" {
		return rand.Uint64() % 1_000_000
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	must(t, err)
	return seed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newNamespace(t *testing.T, ctx context.Context) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fresh-"}}
	must(t, admin.Create(ctx, ns))
	return ns.Name
}

// object identifies an object of one of the two kinds.
type object struct {
	kind kind
	key  trc.Key
}

type kind string

const (
	webPage   kind = "WebPage"
	configMap kind = "ConfigMap"
)

func (o object) String() string { return string(o.kind) + " " + o.key.String() }

func versionOf(o metav1.Object) int64 {
	version, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion %q of %s/%s: %v", o.GetResourceVersion(), o.GetNamespace(), o.GetName(), err))
	}
	return version
}

// after waits for a while in which something may go wrong, of which nothing could tell that it does
// not.
func after(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
