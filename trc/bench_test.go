package trc_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/trc"
)

func benchmarkItems(n int) []any {
	items := make([]any, n)
	for i := range items {
		items[i] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("m%d", i), UID: "u", ResourceVersion: fmt.Sprint(i + 1),
		}}
	}
	return items
}

// BenchmarkGet compares a read through the store with one from client-go's indexer, in one run.
func BenchmarkGet(b *testing.B) {
	const n = 10000
	key := trc.Key{Namespace: "default", Name: "m77"}
	b.Run("store", func(b *testing.B) {
		store := trc.NewStore(trc.Options{Name: "configmaps"})
		if err := store.AddWatch("").Replace(benchmarkItems(n), fmt.Sprint(n)); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if store.Get(key) == nil {
				b.Fatal("not found")
			}
		}
	})
	b.Run("indexer", func(b *testing.B) {
		indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		for _, item := range benchmarkItems(n) {
			if err := indexer.Add(item); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, _ := indexer.GetByKey(key.String()); !ok {
				b.Fatal("not found")
			}
		}
	})
}
