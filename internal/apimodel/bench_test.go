package apimodel_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// BenchmarkNew is what every bubble pays for its model.
func BenchmarkNew(b *testing.B) {
	kinds, err := apimodel.CustomResources(customResources()[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := apimodel.New(apimodel.Options{Kinds: kinds}); err != nil {
			b.Fatal(err)
		}
	}
}
