package fieldpath

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func pathsOf(changes []Change) (paths []string) {
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return paths
}

func TestChangesNamesFieldsThatDiffer(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Generation: 1, Labels: map[string]string{"app": "x"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}, {Name: "d", Image: "i:1"}}},
		}
		change(p)
		return p
	}
	for want, change := range map[string]func(*corev1.Pod){
		"":                         func(p *corev1.Pod) { p.ResourceVersion, p.Generation = "2", 2 },
		"spec.containers[1].image": func(p *corev1.Pod) { p.Spec.Containers[1].Image = "i:2" },
		"spec.containers":          func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"metadata.labels.app":      func(p *corev1.Pod) { p.Labels = map[string]string{"app": "y"} },
		"metadata.labels[e.com/a]": func(p *corev1.Pod) { p.Labels = map[string]string{"app": "x", "e.com/a": "y"} },
		"metadata.labels":          func(p *corev1.Pod) { p.Labels = nil },
		"metadata.deletionTimestamp status.phase": func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodRunning, &metav1.Time{Time: metav1.Now().Time}
		},
	} {
		same, other := pod(func(*corev1.Pod) {}), pod(change)
		changes, more := Changes(same, other, 10)
		if got := strings.Join(pathsOf(changes), " "); got != want || more {
			t.Errorf("changed %q, more %v, want %q", got, more, want)
		}
		back, _ := Changes(other, same, 10)
		for i, c := range back {
			if c.Path != changes[i].Path || !reflect.DeepEqual(c.Old, changes[i].New) || !reflect.DeepEqual(c.New, changes[i].Old) {
				t.Errorf("the other way round: %+v, want %+v turned", c, changes[i])
			}
		}
	}
}

// Typed and unstructured objects have the same paths.
func TestFormsHaveTheSamePaths(t *testing.T) {
	a := &corev1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}}
	b := &corev1.ConfigMap{Data: map[string]string{"a": "2", "c": "2"}}
	typed, _ := Changes(a, b, 10)
	form := func(o runtime.Object) *unstructured.Unstructured {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		return &unstructured.Unstructured{Object: fields}
	}
	plain, _ := Changes(form(a), form(b), 10)
	if got := pathsOf(typed); !reflect.DeepEqual(got, pathsOf(plain)) || len(got) != 3 {
		t.Errorf("%q and %q", got, pathsOf(plain))
	}
}

func TestTextIsShort(t *testing.T) {
	a, b := &corev1.Secret{}, &corev1.Secret{Data: map[string][]byte{}, Type: "x"}
	for i := range 20 {
		b.Data[fmt.Sprint("key", i)] = []byte("hidden")
	}
	a.Data = map[string][]byte{"key0": nil}
	changes, more := Changes(a, b, 10)
	if got := Text(changes, false, more); !strings.HasPrefix(got, "data.key0, data.key1, ") || !strings.HasSuffix(got, " and more") || !more {
		t.Errorf("%q, more %v", got, more)
	}
	changes, more = Changes(a, b, 100)
	if got := Text(changes, false, more); !strings.HasSuffix(got, " and 13 more") || more {
		t.Errorf("%q, more %v", got, more)
	}
	if got := Text(changes, true, more); got != "data, type" {
		t.Errorf("of a Secret: %q", got)
	}
	if changes, _ := Changes(&corev1.Secret{}, b, 100); Text(changes, true, false) != "data, type" {
		t.Errorf("of an empty Secret: %+v", pathsOf(changes))
	}
}
