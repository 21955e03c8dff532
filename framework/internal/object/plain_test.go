package object_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// seconds has unexported fields and marshals itself.
type seconds struct{ at time.Time }

func (s seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.at.Unix()) }

// secretive is an object with unexported fields: in itself, and in a type that marshals itself.
type secretive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            secretiveStatus `json:"status"`
}

type secretiveStatus struct {
	Seen   int       `json:"seen"`
	Since  seconds   `json:"since"`
	Steps  []seconds `json:"steps"`
	cached map[string]seconds
	count  int
}

func (s *secretive) DeepCopyObject() runtime.Object { c := *s; return &c }

// honest is the same without unexported fields but those of a type that marshals itself.
type honest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            struct {
		Seen  int       `json:"seen"`
		Since seconds   `json:"since"`
		Steps []seconds `json:"steps"`
	} `json:"status"`
}

func (h *honest) DeepCopyObject() runtime.Object { c := *h; return &c }

func TestUnexportedFieldsAreNoPartOfAnObject(t *testing.T) {
	at := seconds{time.Unix(7, 0)}
	o := &secretive{Status: secretiveStatus{Seen: 1, Since: at, Steps: []seconds{at}, cached: map[string]seconds{"a": at}, count: 2}}
	plain := &honest{}
	plain.Status.Seen, plain.Status.Since, plain.Status.Steps = 1, at, []seconds{at}
	for _, o := range []trc.Object{o, plain} {
		for _, c := range []struct {
			patch any
			want  bool
		}{
			{map[string]any{"seen": int64(1), "since": int64(7), "steps": []any{int64(7)}}, true},
			{map[string]any{"seen": int64(1), "other": nil}, true},
			{map[string]any{"since": int64(8)}, false},
			{map[string]any{"steps": []any{int64(8)}}, false},
			{map[string]any{"steps": []any{}}, false},
			{map[string]any{"seen": map[string]any{"a": int64(1)}}, false},
			{map[string]any{"count": int64(2)}, false},
		} {
			got, err := holds(o, map[string]any{"status": c.patch})
			if err != nil || got != c.want {
				t.Errorf("%T holds %v: %v, %v; want %v", o, c.patch, got, err, c.want)
			}
		}
	}
}

func TestAListHoldsThoughTheServerFilledInDefaults(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", Reason: "filled in"}}
	for _, c := range []struct {
		conditions []any
		want       bool
	}{
		{[]any{map[string]any{"type": "Ready"}}, true},
		{[]any{map[string]any{"type": "Other"}}, false},
		{[]any{map[string]any{"type": "Ready"}, map[string]any{"type": "Other"}}, false},
	} {
		got, err := holds(pod, map[string]any{"status": map[string]any{"conditions": c.conditions}})
		if err != nil || got != c.want {
			t.Errorf("holds %v: %v, %v; want %v", c.conditions, got, err, c.want)
		}
	}
}

func TestOnlyTypesWithUnexportedFieldsAreConvertedTheSlowWay(t *testing.T) {
	for o, want := range map[trc.Object]bool{
		&corev1.Pod{}: false, &appsv1.Deployment{}: false, &webpagev1.WebPage{}: false, &honest{}: false, &secretive{}: true,
	} {
		if got := object.HasHidden(reflect.TypeOf(o)); got != want {
			t.Errorf("%T: %v, want %v", o, got, want)
		}
	}
}

// holds reports whether a merge patch would change nothing of an object.
func holds(o trc.Object, patch any) (bool, error) {
	content, err := object.Content(o)
	return object.IsNoop(content, patch), err
}
