package gaps

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

var (
	server *rest.Config
	scheme *runtime.Scheme
	admin  client.Client
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	env, err := testenv.Start(testenv.WebPageCRDs())
	if err != nil {
		return fail(err)
	}
	server = env.Config
	if scheme, err = work.Scheme(); err == nil {
		admin, err = client.New(server, client.Options{Scheme: scheme})
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	for _, err := range []error{err, env.Stop()} {
		if err != nil {
			code = fail(err)
		}
	}
	return code
}
