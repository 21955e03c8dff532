package interlock_test

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// The tests have apps, which are implemented on databases.

var shopVersion = schema.GroupVersion{Group: "shop.example.com", Version: "v1"}

// Database is a provider.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// Region is a cluster-scoped provider.
type Region struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// App is a dependent.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Databases []string `json:"databases,omitempty"`
		Apps      []string `json:"apps,omitempty"` // apps may use apps
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

type (
	DatabaseList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []Database `json:"items"`
	}
	RegionList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []Region `json:"items"`
	}
	AppList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []App `json:"items"`
	}
)

func (d *Database) DeepCopyObject() runtime.Object {
	return &Database{d.TypeMeta, *d.ObjectMeta.DeepCopy()}
}

func (r *Region) DeepCopyObject() runtime.Object {
	return &Region{r.TypeMeta, *r.ObjectMeta.DeepCopy()}
}

func (a *App) DeepCopyObject() runtime.Object {
	into := *a
	into.ObjectMeta = *a.ObjectMeta.DeepCopy()
	into.Spec.Databases, into.Spec.Apps = slices.Clone(a.Spec.Databases), slices.Clone(a.Spec.Apps)
	into.Status.Conditions = slices.Clone(a.Status.Conditions)
	return &into
}

func (l *DatabaseList) DeepCopyObject() runtime.Object { return copyList(l, l.Items) }
func (l *RegionList) DeepCopyObject() runtime.Object   { return copyList(l, l.Items) }
func (l *AppList) DeepCopyObject() runtime.Object      { return copyList(l, l.Items) }

// copyList copies a list as the tests need it: they change no items of lists.
func copyList[L, I any](l *L, _ []I) *L { into := *l; return &into }

var scheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(shopVersion, &Database{}, &DatabaseList{}, &Region{}, &RegionList{}, &App{}, &AppList{})
	metav1.AddToGroupVersion(scheme, shopVersion)
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}()

var shopKinds = []apimodel.Kind{
	{GroupVersionKind: shopVersion.WithKind("Database"), Plural: "databases", Generation: true},
	{GroupVersionKind: shopVersion.WithKind("Region"), Plural: "regions", Generation: true, ClusterScoped: true},
	{GroupVersionKind: shopVersion.WithKind("App"), Plural: "apps", Status: true, Generation: true},
	{GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("CronJob"), Plural: "cronjobs", Status: true, Generation: true},
}
