package trc_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/trc"
)

// BenchmarkBytesPerUnseenWrite is what a write costs in memory until the watch has delivered it:
// laid over the cache, as here, or as a version to hold the next run for, which docs/design/0003
// decided against.
func BenchmarkBytesPerUnseenWrite(b *testing.B) {
	const n = 10_000
	written := func(i, version int) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("m%d", i), UID: "11111111-2222-3333-4444-555555555555", ResourceVersion: fmt.Sprint(version)},
			Data:       map[string]string{"index.html": strings.Repeat("x", 1000)},
		}
	}
	b.Run("overlay", func(b *testing.B) {
		for b.Loop() {
			store := trc.NewStore(trc.Options{Name: "configmaps"})
			items := make([]any, n)
			for i := range items {
				items[i] = written(i, i+1)
			}
			if err := store.AddWatch("").Replace(items, fmt.Sprint(n)); err != nil {
				b.Fatal(err)
			}
			before := heap()
			for i := range n {
				if err := store.Acknowledge(written(i, 2*n+i), trc.Proof{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(heap()-before)/n, "B/write")
			_ = store.Len()
		}
	})
	b.Run("hold", func(b *testing.B) {
		for b.Loop() {
			before := heap()
			versions := map[trc.Key]uint64{}
			for i := range n {
				versions[trc.Key{Namespace: "default", Name: fmt.Sprintf("m%d", i)}] = uint64(2*n + i)
			}
			b.ReportMetric(float64(heap()-before)/n, "B/write")
			_ = len(versions)
		}
	})
}
