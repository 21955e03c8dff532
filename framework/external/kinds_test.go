package external_test

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
)

// Shop is the primary of these tests.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShopSpec   `json:"spec,omitempty"`
	Status            ShopStatus `json:"status,omitempty"`
}

type ShopSpec struct {
	Size   string   `json:"size,omitempty"`
	Queues []string `json:"queues,omitempty"`
	Closed bool     `json:"closed,omitempty"`
}

type ShopStatus struct {
	Database external.Record  `json:"database,omitempty"`
	Bucket   external.Record  `json:"bucket,omitempty"`
	Queues   external.Records `json:"queues,omitempty"`
	Note     string           `json:"note,omitempty"`
}

type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

// copied is a deep copy, the slow way.
func copied[T any](from *T) *T {
	content, err := json.Marshal(from)
	if err != nil {
		panic(err)
	}
	to := new(T)
	if err := json.Unmarshal(content, to); err != nil {
		panic(err)
	}
	return to
}

func (s *Shop) DeepCopyObject() runtime.Object     { return copied(s) }
func (s *ShopList) DeepCopyObject() runtime.Object { return copied(s) }

var shopVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(shopVersion, &Shop{}, &ShopList{})
	metav1.AddToGroupVersion(s, shopVersion)
	return s
}()

type (
	shopContext = framework.Context[*Shop]
	shopUpdate  = framework.UpdateControl[*Shop]
	dependents  = []framework.Dependent[*Shop]
)

// inDatabaseStatus and inBucketStatus remember in the status.
func inDatabaseStatus() external.State[*Shop] {
	return external.OneInStatus(
		func(s *Shop) external.Record { return s.Status.Database },
		func(s *Shop, r external.Record) { s.Status.Database = r })
}

func inBucketStatus() external.State[*Shop] {
	return external.OneInStatus(
		func(s *Shop) external.Record { return s.Status.Bucket },
		func(s *Shop, r external.Record) { s.Status.Bucket = r })
}
