package frameworktest_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// Site is the primary of the operators of these tests: a text that must be published somewhere.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SiteSpec   `json:"spec,omitempty"`
	Status            SiteStatus `json:"status,omitempty"`
}

// SiteSpec is what users want.
type SiteSpec struct {
	Text string `json:"text,omitempty"`
}

// SiteStatus is what operators write down.
type SiteStatus struct {
	ID      string `json:"id,omitempty"`
	Token   string `json:"token,omitempty"`
	Text    string `json:"text,omitempty"`
	Checked string `json:"checked,omitempty"`
	Number  int64  `json:"number,omitempty"`
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Site `json:"items"`
}

func (s *Site) DeepCopyObject() runtime.Object {
	copied := *s
	s.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Site))
	}
	return &copied
}

// siteScheme has sites and the kinds of the core, fullScheme sites and all kinds of client-go.
var siteScheme, fullScheme = schemeWith(corev1.AddToScheme), schemeWith(clientgoscheme.AddToScheme)

// schemeWith returns a scheme of sites and what add adds.
func schemeWith(add func(*runtime.Scheme) error) *runtime.Scheme {
	s := runtime.NewScheme()
	version := schema.GroupVersion{Group: "test.evenkeel.dev", Version: "v1"}
	s.AddKnownTypes(version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(s, version)
	if err := add(s); err != nil {
		panic(err)
	}
	return s
}

// Short names of what each operator mentions.
type (
	siteContext = framework.Context[*Site]
	siteUpdate  = framework.UpdateControl[*Site]
	siteOptions = framework.ControllerOptions[*Site]
	configMaps  = framework.Secondary[*corev1.ConfigMap]

	// operator registers its controllers for a process.
	operator = func(op *framework.Operator, p *frameworktest.Process) error
)

// reconcile is a reconciler that is a function.
type reconcile func(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error)

func (r reconcile) Reconcile(ctx context.Context, site *Site, c *siteContext) (siteUpdate, error) {
	return r(ctx, site, c)
}

// cleaning is one with a finalizer.
type cleaning struct {
	reconcile
	cleanup func(ctx context.Context, site *Site, c *siteContext) (framework.DeleteControl, error)
}

func (r cleaning) Cleanup(ctx context.Context, site *Site, c *siteContext) (framework.DeleteControl, error) {
	return r.cleanup(ctx, site, c)
}

// noUpdate is the result of a run that failed, or has nothing to write.
var noUpdate siteUpdate

// bare returns a client as people use it who have not heard of the framework's.
func bare(p *frameworktest.Process) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(p.Config())
}

// sites returns all sites as the API server has them.
func sites(p *frameworktest.Process) ([]Site, error) {
	c, err := client.New(p.Config(), siteScheme)
	if err != nil {
		return nil, err
	}
	var all SiteList
	err = c.List(context.Background(), &all)
	return all.Items, err
}

// named returns the site's ConfigMap of a name.
func named(site *Site, name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: name, Annotations: map[string]string{"site": site.Name}},
		Data:       map[string]string{"text": text},
	}
}

// generated returns the site's ConfigMap without a name.
func generated(site *Site) *corev1.ConfigMap {
	o := named(site, "", site.Spec.Text)
	o.GenerateName = site.Name + "-"
	return o
}

// newSite returns a site for stories.
func newSite(name, text string) *Site {
	return &Site{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: SiteSpec{Text: text}}
}

// appears is a story in which a site appears.
func appears(w *frameworktest.World) {
	w.Proceed(2 * time.Second)
	w.Create(newSite("hello", "hi"))
	w.Rest()
}

// changes is a story in which a site appears and changes.
func changes(w *frameworktest.World) {
	appears(w)
	w.Merge(newSite("hello", ""), `{"spec":{"text":"good morning"}}`)
	w.Rest()
}

// disappears is a story in which a site appears and is deleted.
func disappears(w *frameworktest.World) {
	appears(w)
	w.Delete(newSite("hello", ""))
	w.Rest()
}

// two is a story of two sites, one after the other.
func two(w *frameworktest.World) {
	appears(w)
	w.Create(newSite("other", "hi, too"))
	w.Rest()
}

// atMostOne holds if no site has several ConfigMaps.
func atMostOne(v frameworktest.Version) error {
	if all := frameworktest.Objects[*corev1.ConfigMap](v); len(all) > 1 {
		return fmt.Errorf("there are %d ConfigMaps", len(all))
	}
	return nil
}

// deploymentOf returns a Deployment of one container, whose Pods have its name as the label "app".
func deploymentOf(namespace, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
}
