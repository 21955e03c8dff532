package clusterstest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = webpagev1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
	pageOptions = framework.ControllerOptions[*page]
)

var (
	home, far *testenv.Env
	scheme    = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	// Connections to a server that hangs are found dead after 10 s, not after 45 s. client-go reads
	// these variables.
	for _, variable := range []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS"} {
		if err := os.Setenv(variable, "5"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webpagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 1, err
		}
	}
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, env := range []**testenv.Env{&home, &far} {
		both.Go(func() { *env, errs[i] = testenv.Start(testenv.WebPageCRDs()) })
	}
	both.Wait()
	defer func() {
		for _, env := range []*testenv.Env{home, far} {
			if env == nil {
				continue
			}
			if stopErr := env.Stop(); err == nil {
				err = stopErr
			}
		}
	}()
	for _, err := range errs {
		if err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// clientOf is others' client of a control plane, past all faults.
func clientOf(t *testing.T, env *testenv.Env) *client.Client {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	c, err := client.New(config, scheme)
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
