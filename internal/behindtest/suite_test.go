package behindtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var (
	ctx   = context.Background()
	plane *testenv.Plane
	// Of everybody but the operators.
	admin   *client.Client
	watches dynamic.Interface
)

func TestBehind(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Behind a gate")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	stages := filepath.Join("testdata", "pods.yaml")
	plane, err = testenv.StartSandbox(ctx, "--nodes", "1", "--stages", stages)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	admin, err = client.New(config, scheme.Scheme)
	Expect(err).NotTo(HaveOccurred())
	watches, err = dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
})

func namespace() string {
	GinkgoHelper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "behind-"}}
	Expect(admin.Create(ctx, made)).To(Succeed())
	return made.Name
}

// operate runs an operator until the specs have ended.
func operate(name, ns string, register func(*framework.Operator) error) *framework.Operator {
	GinkgoHelper()
	op, err := framework.NewOperator(plane.Config, framework.OperatorOptions{
		Scheme: scheme.Scheme, Name: name, Namespaces: []string{ns}, Grace: -1,
		Logger: funcr.New(func(prefix, args string) {
			GinkgoWriter.Println(name, prefix, args)
		}, funcr.Options{Verbosity: 1}),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(register(op)).To(Succeed())
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	DeferCleanup(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	return op
}
