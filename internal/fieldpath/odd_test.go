package fieldpath

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A transform of the author's may leave a nil map. This runs where events are delivered, so a panic
// would end the operator.
func TestNilMapsAreCompared(t *testing.T) {
	a := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any(nil)}}
	b := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"x": "1"}}}
	for _, pair := range [][2]*unstructured.Unstructured{{a, b}, {b, a}} {
		if got := Describe("Page", pair[0], pair[1]); got != "spec.x" {
			t.Errorf("%q", got)
		}
	}
}

// Keys of maps may be anything where the schema preserves unknown fields.
func TestADescriptionIsOneShortLine(t *testing.T) {
	object := func(keys ...string) *unstructured.Unstructured {
		spec := map[string]any{}
		for _, key := range keys {
			spec[key] = "x"
		}
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	text := Describe("Page", object("a"), object("a", "b\nc\x1b[31m", "b\xff", strings.Repeat("ä", 1<<20)))
	if len(text) > 4096 || strings.ContainsAny(text, "\n\x1b") || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
}
