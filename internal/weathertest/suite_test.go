package weathertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/scheduler"
)

// The specs borrow the sample's kind as primary, whose status is apart.
type (
	page        = webpagev1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
	pageOptions = framework.ControllerOptions[*page]
)

var (
	env    *testenv.Env
	admin  *client.Client // of everybody but the operators
	scheme = newScheme()
	ctx    = context.Background()
)

// calm is how long an operator may take until all is well once the weather has ended: the back-off
// of a watch that was refused several times is the longest of what it waits for.
const calm = 60 * time.Second

func TestWeather(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(calm)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(300 * time.Millisecond)
	RunSpecs(t, "Weather")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	env, err = testenv.Start(testenv.WebPageCRDs())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return env.Stop() })
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	admin, err = client.New(config, scheme)
	Expect(err).NotTo(HaveOccurred())
})

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webpagev1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

func namespace() string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "weather-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// operate runs an operator of one controller for the pages of a namespace until the spec ends, or
// stop is called.
func operate(config *rest.Config, ns string, r framework.Reconciler[*page], options pageOptions) (op *framework.Operator, stop func() error) {
	GinkgoHelper()
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Name: options.Name, Namespaces: []string{ns},
		Logger: funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{LogTimestamp: true}),
	})
	Expect(err).NotTo(HaveOccurred())
	options.MaxInterval = scheduler.NoMaxInterval // no run that nothing caused
	Expect(framework.Register(op, r, options)).To(Succeed())
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	DeferCleanup(stop)
	Eventually(op.Ready).Should(Succeed())
	return op, stop
}

// leftOf lists what an operator still holds, Histories and what caches show only if nothing is to
// exist any more.
func leftOf(op *framework.Operator, nothingExists bool) (left []string) {
	now := op.Occupancy()
	count := func(what string, n int) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	for _, c := range now.Caches {
		count("ahead in "+c.Cache, c.Ahead)
		count("set aside in "+c.Cache, c.Undecodable)
		if nothingExists {
			count("objects in "+c.Cache, c.Objects)
		}
	}
	count("edges", now.Edges)
	count("keys", now.Keys)
	count("unresolved writes", now.Unresolved)
	count("final runs", now.FinalRuns)
	count("applies", now.Applying)
	count("decoded answers", now.DecodedAnswers)
	if nothingExists {
		count("confirmed applies", now.Confirmed)
		count("histories", now.Histories)
	}
	return left
}

// ends waits until nothing of a namespace's pages and ConfigMaps is left, on the server or in the
// operators.
func ends(ns string, operators ...*framework.Operator) {
	GinkgoHelper()
	Eventually(func() []string { return namesOf(ns, &webpagev1.WebPageList{}) }).Should(BeEmpty(), "pages")
	Eventually(func() []string { return namesOf(ns, &corev1.ConfigMapList{}) }).Should(BeEmpty(), "ConfigMaps")
	for _, op := range operators {
		Eventually(func() []string { return leftOf(op, true) }).Should(BeEmpty())
	}
}

// namesOf are the objects of a kind that there are.
func namesOf(ns string, list client.ObjectList) (names []string) {
	GinkgoHelper()
	Expect(admin.List(ctx, list, client.InNamespace(ns))).To(Succeed())
	switch list := list.(type) {
	case *webpagev1.WebPageList:
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
	case *corev1.ConfigMapList:
		for _, m := range list.Items {
			names = append(names, m.Name)
		}
	}
	return names
}

func newPage(ns, name, html string) *page {
	return &page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: webpagev1.WebPageSpec{HTML: html}}
}

func newMap(ns, name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: data}
}

// pageNow is the page as it is; its UID is empty if there is none.
func pageNow(ns, name string) *page {
	p := &page{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, p); client.IgnoreNotFound(err) != nil {
		panic(fmt.Sprintf("read page %s: %v", name, err)) // also in goroutines, where Fail is of no use
	}
	return p
}

// changePage has another client change a page, until no other write came in between; false if it is
// not there.
func changePage(ns, name string, change func(*page) bool) (after *page, changed bool) {
	for {
		p := pageNow(ns, name)
		if p.UID == "" || !change(p) {
			return p, false
		}
		switch err := admin.Update(ctx, p); {
		case err == nil:
			return p, true
		case apierrors.IsNotFound(err):
			return p, false
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err): // invalid: another UID by now
			panic(fmt.Sprintf("change page %s: %v", name, err))
		}
	}
}
