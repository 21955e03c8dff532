package webpage_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func TestWebPage(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	RunSpecs(t, "WebPage")
}

var _ = ReportAfterEach(spectimes.Append)

// cluster is an API server that a spec works against, as an administrator.
type cluster struct {
	*client.Client
	config   *rest.Config
	register func(*framework.Operator) error
}

func newCluster(config *rest.Config) *cluster {
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1.AddToScheme(scheme)).To(Succeed())
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, scheme)
	Expect(err).NotTo(HaveOccurred())
	return &cluster{Client: c, config: config, register: webpage.Register}
}

// install applies the manifests of a folder of the sample, as make install would.
func (c *cluster) install(ctx context.Context, folder string) {
	files, err := filepath.Glob(filepath.Join("config", folder, "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for _, document := range strings.Split(string(content), "\n---\n") {
			var o unstructured.Unstructured
			Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
			Expect(c.Create(ctx, &o)).To(Succeed(), file)
		}
	}
}

// namespace makes a namespace for one spec.
func (c *cluster) namespace(ctx context.Context) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pages-"}}
	Expect(c.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// operator runs the WebPage operator on a namespace with the rights of its service account only,
// until the spec ends or stop is called.
func (c *cluster) operator(namespace string, change ...func(*rest.Config)) (op *framework.Operator, stop func()) {
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:webpage-operator:webpage-operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	for _, f := range change {
		f(config)
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: c.Scheme(), Namespaces: []string{namespace}, Grace: -1, Name: "webpage-operator",
		Logger: funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2}),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(c.register(op)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			Expect(<-done).To(Succeed())
		}
	}
	DeferCleanup(stop)
	return op, stop
}

const fullHTML = "<html><head><title>t</title></head><body>hello</body></html>"

func page(namespace, name string, change ...func(*v1.WebPage)) *v1.WebPage {
	p := &v1.WebPage{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.WebPageSpec{HTML: fullHTML},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// get reads an object, nil if there is none.
func get[T client.Object](c *cluster, into T, like client.Object) T {
	err := c.Get(context.Background(), client.ObjectKeyFromObject(like), into)
	if client.IgnoreNotFound(err) != nil {
		Fail(err.Error())
	}
	if err != nil {
		var none T
		return none
	}
	return into
}

func (c *cluster) configMap(p *v1.WebPage) *corev1.ConfigMap { return get(c, &corev1.ConfigMap{}, p) }

func (c *cluster) deployment(p *v1.WebPage) *appsv1.Deployment {
	return get(c, &appsv1.Deployment{}, p)
}
func (c *cluster) service(p *v1.WebPage) *corev1.Service { return get(c, &corev1.Service{}, p) }
func (c *cluster) ingress(p *v1.WebPage) *networkingv1.Ingress {
	return get(c, &networkingv1.Ingress{}, p)
}
func (c *cluster) page(p *v1.WebPage) *v1.WebPage { return get(c, &v1.WebPage{}, p) }

// update changes an object as another client would, whatever races with it.
func update[T client.Object](c *cluster, read func(*v1.WebPage) T, p *v1.WebPage, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		o := read(p)
		change(o)
		return c.Update(context.Background(), o)
	}).Should(Succeed())
}

// rollOut plays the Deployment controller.
func (c *cluster) rollOut(p *v1.WebPage) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		d := c.deployment(p)
		g.Expect(d).NotTo(BeNil())
		n := *d.Spec.Replicas
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, ReadyReplicas: n,
		}
		g.Expect(c.Status().Update(context.Background(), d)).To(Succeed())
	}).Should(Succeed())
}

// condition returns "STATUS REASON" of a condition of the page, for its present generation.
func (c *cluster) condition(p *v1.WebPage, kind string) func() string {
	return func() string {
		now := c.page(p)
		if now == nil {
			return "no page"
		}
		condition := apimeta.FindStatusCondition(now.Status.Conditions, kind)
		switch {
		case condition == nil:
			return "none"
		case condition.ObservedGeneration != now.Generation:
			return "outdated"
		}
		return string(condition.Status) + " " + condition.Reason
	}
}

// events returns "TYPE REASON" of the events about the page.
func (c *cluster) events(p *v1.WebPage) func() []string {
	return func() []string {
		var list eventsv1.EventList
		Expect(c.List(context.Background(), &list, client.InNamespace(p.Namespace))).To(Succeed())
		var found []string
		for _, e := range list.Items {
			if e.Regarding.Kind == "WebPage" && e.Regarding.Name == p.Name {
				found = append(found, e.Type+" "+e.Reason)
			}
		}
		return found
	}
}

// versions returns the resourceVersions of everything of a page.
func (c *cluster) versions(p *v1.WebPage) map[string]string {
	versions := map[string]string{}
	for _, o := range []client.Object{c.page(p), c.configMap(p), c.deployment(p), c.service(p)} {
		versions[string(o.GetUID())] = o.GetResourceVersion()
	}
	return versions
}

// uids returns the UIDs of the secondaries there are, by kind.
func (c *cluster) uids(p *v1.WebPage) map[string]types.UID {
	uids := map[string]types.UID{}
	if o := c.configMap(p); o != nil {
		uids["ConfigMap"] = o.UID
	}
	if o := c.deployment(p); o != nil {
		uids["Deployment"] = o.UID
	}
	if o := c.service(p); o != nil {
		uids["Service"] = o.UID
	}
	if o := c.ingress(p); o != nil {
		uids["Ingress"] = o.UID
	}
	return uids
}

func ownerUIDs(o metav1.Object) []types.UID {
	var uids []types.UID
	for _, r := range o.GetOwnerReferences() {
		uids = append(uids, r.UID)
	}
	return uids
}
