package portedtest

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CronJob and its parts have the fields of the tutorial that its reconciler uses.
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              CronJobSpec   `json:"spec"`
	Status            CronJobStatus `json:"status,omitempty"`
}

type CronJobSpec struct {
	Schedule                   string                  `json:"schedule"`
	ConcurrencyPolicy          string                  `json:"concurrencyPolicy,omitempty"`
	Suspend                    bool                    `json:"suspend,omitempty"`
	StartingDeadlineSeconds    *int64                  `json:"startingDeadlineSeconds,omitempty"`
	SuccessfulJobsHistoryLimit *int32                  `json:"successfulJobsHistoryLimit,omitempty"`
	FailedJobsHistoryLimit     *int32                  `json:"failedJobsHistoryLimit,omitempty"`
	JobTemplate                batchv1.JobTemplateSpec `json:"jobTemplate"`
}

type CronJobStatus struct {
	Active           []corev1.ObjectReference `json:"active,omitempty"`
	LastScheduleTime *metav1.Time             `json:"lastScheduleTime,omitempty"`
}

func (in *CronJob) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.StartingDeadlineSeconds = copied(in.Spec.StartingDeadlineSeconds)
	out.Spec.SuccessfulJobsHistoryLimit = copied(in.Spec.SuccessfulJobsHistoryLimit)
	out.Spec.FailedJobsHistoryLimit = copied(in.Spec.FailedJobsHistoryLimit)
	in.Spec.JobTemplate.DeepCopyInto(&out.Spec.JobTemplate)
	out.Status.Active = slices.Clone(in.Status.Active)
	out.Status.LastScheduleTime = in.Status.LastScheduleTime.DeepCopy()
	return &out
}

func copied[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// MySQLSchema is a schema in a database.
type MySQLSchema struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MySQLSchemaSpec   `json:"spec"`
	Status            MySQLSchemaStatus `json:"status,omitempty"`
}

type MySQLSchemaSpec struct {
	Encoding string `json:"encoding,omitempty"`
}

type MySQLSchemaStatus struct {
	URL        string `json:"url,omitempty"`
	Status     string `json:"status,omitempty"`
	UserName   string `json:"userName,omitempty"`
	SecretName string `json:"secretName,omitempty"`
}

func (in *MySQLSchema) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// Tomcat is a number of servers.
type Tomcat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TomcatSpec   `json:"spec"`
	Status            TomcatStatus `json:"status,omitempty"`
}

type TomcatSpec struct {
	Version  int   `json:"version,omitempty"`
	Replicas int32 `json:"replicas,omitempty"`
}

type TomcatStatus struct {
	ReadyReplicas int32 `json:"readyReplicas"`
}

func (in *Tomcat) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// Webapp is an archive that the servers of a Tomcat serve.
type Webapp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebappSpec   `json:"spec"`
	Status            WebappStatus `json:"status,omitempty"`
}

type WebappSpec struct {
	URL         string `json:"url,omitempty"`
	ContextPath string `json:"contextPath,omitempty"`
	Tomcat      string `json:"tomcat,omitempty"`
}

type WebappStatus struct {
	DeployedArtifact string   `json:"deployedArtifact,omitempty"`
	DeploymentStatus []string `json:"deploymentStatus,omitempty"`
}

func (in *Webapp) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.DeploymentStatus = slices.Clone(in.Status.DeploymentStatus)
	return &out
}

// WebPage is a page that a web server of its own serves.
type WebPage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WebPageSpec   `json:"spec"`
	Status            WebPageStatus `json:"status,omitempty"`
}

type WebPageSpec struct {
	HTML string `json:"html,omitempty"`
}

type WebPageStatus struct {
	HTMLConfigMap string `json:"htmlConfigMap,omitempty"`
	AreWeGood     bool   `json:"areWeGood,omitempty"`
	ErrorMessage  string `json:"errorMessage,omitempty"`
	// RestartedFor is the mend's: the page for which the Pods were restarted.
	RestartedFor string `json:"restartedFor,omitempty"`
}

func (in *WebPage) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// listOf is the list of a kind. A scheme wants one for each kind; it finds its name by that of the
// Go type, so that each has its own.
type listOf[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

func (in listOf[T]) copied() listOf[T] {
	in.Items = slices.Clone(in.Items)
	for i := range in.Items {
		object := any(&in.Items[i]).(runtime.Object)
		in.Items[i] = *any(object.DeepCopyObject()).(*T)
	}
	return in
}

type CronJobList struct{ listOf[CronJob] }

type MySQLSchemaList struct{ listOf[MySQLSchema] }

type TomcatList struct{ listOf[Tomcat] }

type WebappList struct{ listOf[Webapp] }

type WebPageList struct{ listOf[WebPage] }

func (in *CronJobList) DeepCopyObject() runtime.Object { return &CronJobList{in.copied()} }

func (in *MySQLSchemaList) DeepCopyObject() runtime.Object { return &MySQLSchemaList{in.copied()} }

func (in *TomcatList) DeepCopyObject() runtime.Object { return &TomcatList{in.copied()} }

func (in *WebappList) DeepCopyObject() runtime.Object { return &WebappList{in.copied()} }

func (in *WebPageList) DeepCopyObject() runtime.Object { return &WebPageList{in.copied()} }

// types is the scheme of all ports.
var types = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for group, objects := range map[string][]runtime.Object{
		"batch.tutorial.kubebuilder.io": {&CronJob{}, &CronJobList{}},
		"mysql.sample.javaoperatorsdk":  {&MySQLSchema{}, &MySQLSchemaList{}},
		"tomcatoperator.io":             {&Tomcat{}, &TomcatList{}, &Webapp{}, &WebappList{}},
		"sample.javaoperatorsdk":        {&WebPage{}, &WebPageList{}},
	} {
		gv := schema.GroupVersion{Group: group, Version: "v1"}
		s.AddKnownTypes(gv, objects...)
		metav1.AddToGroupVersion(s, gv)
	}
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()
