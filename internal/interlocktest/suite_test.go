package interlocktest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

var (
	env   *testenv.Env
	admin *kubernetes.Clientset // of everybody but the operators
	ctx   = context.Background()
)

// calm is how long everything may take to drain once all is deleted and nobody is killed any more:
// what is shown late, and the back-off of a watch that broke several times.
const calm = 90 * time.Second

func TestMain(m *testing.M) {
	if given := os.Getenv(operatorVariable); given != "" {
		os.Exit(beOperator(given))
	}
	os.Exit(m.Run())
}

func TestInterlock(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Interlock")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	env, err = testenv.StartWithSecondEtcd(schema.GroupResource{Resource: "configmaps"})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return env.Stop() })
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	admin, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
})

// numberFrom is what an environment variable says, or a default.
func numberFrom(variable string, or uint64) uint64 {
	given := os.Getenv(variable)
	if given == "" {
		return or
	}
	n, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", variable, err))
	}
	return n
}

// seed is the one that is asked for, or a fresh one.
func seed() uint64 { return numberFrom("INTERLOCK_SEED", rand.Uint64()%1_000_000) }

// lifecycles are how many apps, and as many databases, are to come and go.
func lifecycles() int { return depth.Of(240, 240, 10_000) }
