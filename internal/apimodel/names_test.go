package apimodel_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// generated returns the names of new ConfigMaps in a new model.
func generated(t *testing.T, base string, n int) (names []string) {
	t.Helper()
	maps := client(t, newModel(t)).Resource(configMapGVR).Namespace("default")
	for range n {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		o.SetGenerateName(base)
		made, err := maps.Create(t.Context(), o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, made.GetName())
	}
	return names
}

// TestGeneratedNamesAreNotInTheOrderOfCreation: no four in a row are sorted, up or down.
func TestGeneratedNamesAreNotInTheOrderOfCreation(t *testing.T) {
	const base, n = "page-", 2000
	names := generated(t, base, n)
	known := map[string]bool{}
	for _, name := range names {
		suffix, found := strings.CutPrefix(name, base)
		if !found || len(suffix) != 5 || strings.Trim(suffix, "bcdfghjklmnpqrstvwxz2456789") != "" {
			t.Errorf("the name is %s", name)
		}
		if known[name] {
			t.Errorf("a second %s", name)
		}
		known[name] = true
	}
	descending := func(a, b string) int { return strings.Compare(b, a) }
	for first := 0; first+4 <= n; first++ {
		if four := names[first : first+4]; slices.IsSorted(four) || slices.IsSortedFunc(four, descending) {
			t.Fatalf("sorted: %v", four)
		}
	}
	if again := generated(t, base, n); !slices.Equal(names, again) {
		t.Error("another model generates other names")
	}
}

func TestGeneratedNamesHaveAtMost63Characters(t *testing.T) {
	if name := generated(t, strings.Repeat("x", 70), 1)[0]; len(name) != 63 {
		t.Errorf("the name is %s", name)
	}
}
