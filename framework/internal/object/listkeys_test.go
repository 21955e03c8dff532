package object_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// TestListsOfAPatchMergeByTheirKeys as they do on the server in a strategic merge patch; other
// lists are one value.
func TestListsOfAPatchMergeByTheirKeys(t *testing.T) {
	for _, c := range []struct {
		name                 string
		kind                 runtime.Object
		there, intent, patch string
	}{
		{
			"what the server filled in makes no difference", &corev1.Pod{},
			`{"spec":{"containers":[{"name":"a","image":"x","imagePullPolicy":"Always"}]}}`, `{"spec":{"containers":[{"name":"a","image":"x"}]}}`, ``,
		},
		{
			"an item is changed, and others' stay", &corev1.Pod{},
			`{"spec":{"containers":[{"name":"theirs"},{"name":"a","image":"y","tty":true}]}}`, `{"spec":{"containers":[{"name":"a","image":"x"}]}}`,
			`{"spec":{"containers":[{"name":"theirs"},{"image":"x","name":"a","tty":true}]}}`,
		},
		{
			"an item is new", &corev1.Pod{},
			`{"spec":{"containers":[{"name":"theirs"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"theirs"},{"name":"a"}]}}`,
		},
		{
			"lists in items", &corev1.Pod{},
			`{"spec":{"containers":[{"name":"a","env":[{"name":"T","value":"t"},{"name":"O","value":"2"}]}]}}`,
			`{"spec":{"containers":[{"name":"a","env":[{"name":"O","value":"1"}]}]}}`,
			`{"spec":{"containers":[{"env":[{"name":"T","value":"t"},{"name":"O","value":"1"}],"name":"a"}]}}`,
		},
		{
			"ports are told by their protocol, too", &corev1.Service{},
			`{"spec":{"ports":[{"port":53,"protocol":"TCP","nodePort":1},{"port":53,"protocol":"UDP","nodePort":2}]}}`,
			`{"spec":{"ports":[{"port":53},{"port":53,"protocol":"UDP"}]}}`, ``,
		},
		{
			"a volume that becomes another kind of volume", &corev1.Pod{},
			`{"spec":{"volumes":[{"name":"v","configMap":{"name":"c","defaultMode":420}}]}}`, `{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}`,
			`{"spec":{"volumes":[{"emptyDir":{},"name":"v"}]}}`,
		},
		{
			"a volume that stays one", &corev1.Pod{},
			`{"spec":{"volumes":[{"name":"v","configMap":{"name":"c","defaultMode":420}}]}}`, `{"spec":{"volumes":[{"name":"v","configMap":{"name":"c"}}]}}`, ``,
		},
		{
			"another strategy, which has no parameters", &appsv1.Deployment{},
			`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}`, `{"spec":{"strategy":{"type":"Recreate"}}}`,
			`{"spec":{"strategy":{"rollingUpdate":null,"type":"Recreate"}}}`,
		},
		{
			"the same strategy", &appsv1.Deployment{},
			`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}`, `{"spec":{"strategy":{"type":"RollingUpdate"}}}`, ``,
		},
		{
			"a set of values", &corev1.ConfigMap{},
			`{"metadata":{"finalizers":["example.com/theirs"]}}`, `{"metadata":{"finalizers":["example.com/ours"]}}`,
			`{"metadata":{"finalizers":["example.com/theirs","example.com/ours"]}}`,
		},
		{
			"a list without a key is one value", &corev1.Pod{},
			`{"spec":{"tolerations":[{"key":"theirs"}]}}`, `{"spec":{"tolerations":[{"key":"ours"}]}}`, `{"spec":{"tolerations":[{"key":"ours"}]}}`,
		},
		{
			"a list whose keys are not unique is one value", &corev1.Pod{},
			`{"spec":{"containers":[{"name":"a"},{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`,
		},
		{
			"of a kind that the scheme does not know, every list is one value", nil,
			`{"spec":{"containers":[{"name":"theirs"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`, `{"spec":{"containers":[{"name":"a"}]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			content := func(text string) (content map[string]any) {
				noError(t, utiljson.Unmarshal([]byte(text), &content))
				return content
			}
			kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Unknown"}
			if c.kind != nil {
				kinds, _, err := clientgoscheme.Scheme.ObjectKinds(c.kind)
				noError(t, err)
				kind = kinds[0]
			}
			there := &unstructured.Unstructured{Object: content(c.there)}
			got, err := object.Additions(there, content(c.intent), object.ListKeysOf(clientgoscheme.Scheme, kind, there))
			noError(t, err)
			encoded, err := json.Marshal(got)
			noError(t, err)
			if want := c.patch; string(encoded) != want && !(want == "" && got == nil) {
				t.Errorf("the patch is %s, want %s", encoded, want)
			}
		})
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
