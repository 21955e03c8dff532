package trc_test

import (
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/evenkeel/evenkeel/trc"
)

// benchmarkObject returns the i-th of n objects in 100 namespaces; ten objects share an owner.
func benchmarkObject(i, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "namespace-" + strconv.Itoa(i%100), Name: "name-" + strconv.Itoa(i),
			UID: types.UID("uid-" + strconv.Itoa(i)), ResourceVersion: strconv.Itoa(version),
			Labels: map[string]string{"app": "web", "tier": strconv.Itoa(i % 5)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "example.com/v1", Kind: "Page", Name: "page-" + strconv.Itoa(i/10), UID: "owner",
			}},
		},
		Data: map[string]string{"index.html": "<h1>Hello, object " + strconv.Itoa(i) + "</h1>"},
	}
}

// managed adds what server-side apply leaves in managedFields.
func managed(o *corev1.ConfigMap) *corev1.ConfigMap {
	at := metav1.Unix(1_700_000_000, 0)
	o.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "page-controller", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:index.html":{}},"f:metadata":{` +
			`"f:labels":{"f:app":{},"f:tier":{}},"f:ownerReferences":{"k:{\"uid\":\"owner\"}":{}}}}`),
	}}
	return o
}

func benchmarkObjects(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = benchmarkObject(i, i+1)
	}
	return all
}

func owner(o trc.Object) []string { return []string{o.GetOwnerReferences()[0].Name} }

// newBenchmarkStore is a store of n objects with one index.
func newBenchmarkStore(tb testing.TB, n int) (*trc.Store, *trc.Watch) {
	tb.Helper()
	s := trc.NewStore(trc.Options{Name: "configmaps"})
	if err := s.AddIndex("owner", owner); err != nil {
		tb.Fatal(err)
	}
	w := s.AddWatch("")
	if err := w.Replace(benchmarkObjects(n), strconv.Itoa(n)); err != nil {
		tb.Fatal(err)
	}
	return s, w
}

// newIndexer is what client-go's informers keep their objects in, with the same index.
func newIndexer(tb testing.TB, indexers cache.Indexers, objects []any) cache.Indexer {
	tb.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		"owner": func(o any) ([]string, error) { return owner(o.(trc.Object)), nil },
	})
	if err := indexer.AddIndexers(indexers); err != nil {
		tb.Fatal(err)
	}
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			tb.Fatal(err)
		}
	}
	return indexer
}

// BenchmarkGet compares a read through the store with one from client-go's indexer, in one run.
func BenchmarkGet(b *testing.B) {
	const n = 10_000
	keys := make([]trc.Key, n)
	texts := make([]string, n)
	for i := range keys {
		keys[i] = trc.KeyOf(benchmarkObject(i*7919%n, 1))
		texts[i] = keys[i].String()
	}
	b.Run("store", func(b *testing.B) {
		s, _ := newBenchmarkStore(b, n)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if s.Get(keys[i%n]) == nil {
				b.Fatal("not found")
			}
		}
	})
	b.Run("indexer", func(b *testing.B) {
		indexer := newIndexer(b, nil, benchmarkObjects(n))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, ok, _ := indexer.GetByKey(texts[i%n]); !ok {
				b.Fatal("not found")
			}
		}
	})
}

// BenchmarkUpdateIndexed applies events of objects that keep their index values.
func BenchmarkUpdateIndexed(b *testing.B) {
	const n = 10_000
	news := make([]any, 4*n)
	for i := range news {
		news[i] = benchmarkObject(i%n, n+1+i)
	}
	b.Run("store", func(b *testing.B) {
		_, w := newBenchmarkStore(b, n)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := w.Update(news[i%len(news)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("indexer", func(b *testing.B) {
		indexer := newIndexer(b, nil, benchmarkObjects(n))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := indexer.Update(news[i%len(news)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList100k(b *testing.B) {
	s, _ := newBenchmarkStore(b, 100_000)
	tier := labels.SelectorFromSet(labels.Set{"tier": "3"})
	for name, list := range map[string]func() []trc.Object{
		"all":                   func() []trc.Object { return s.List("", nil) },
		"of a namespace":        func() []trc.Object { return s.List("namespace-7", nil) },
		"by label":              func() []trc.Object { return s.List("", tier) },
		"of namespace by label": func() []trc.Object { return s.List("namespace-8", tier) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(list()) == 0 {
					b.Fatal("nothing found")
				}
			}
		})
	}
}

func BenchmarkByIndex100k(b *testing.B) {
	s, _ := newBenchmarkStore(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if found, err := s.ByIndex("owner", "page-77"); err != nil || len(found) != 10 {
			b.Fatal(found, err)
		}
	}
}

// BenchmarkAcknowledge acknowledges an answer and then applies its event.
func BenchmarkAcknowledge(b *testing.B) {
	const n = 10_000
	s, w := newBenchmarkStore(b, n)
	answers := make([]*corev1.ConfigMap, 1_000_000)
	for i := range answers {
		answers[i] = benchmarkObject(i%n, n+1+i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o := answers[i%len(answers)]
		if i >= len(answers) {
			o = benchmarkObject(i%n, n+1+i)
		}
		if err := s.Acknowledge(o, trc.Proof{}); err != nil {
			b.Fatal(err)
		}
		if err := w.Update(o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEventWithAStalledWatchOf100kEntries applies events while 100,000 keys of the watch are
// ahead.
func BenchmarkEventWithAStalledWatchOf100kEntries(b *testing.B) {
	const n = 100_000
	s, w := newBenchmarkStore(b, 10)
	for i := range n {
		if err := s.Acknowledge(benchmarkObject(10+i, 1_000_000_000+i*7919%n), trc.Proof{}); err != nil {
			b.Fatal(err)
		}
	}
	if s.Ahead() != n {
		b.Fatalf("%d keys are ahead", s.Ahead())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := w.Update(benchmarkObject(0, 100+i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLedger is a write of a run that has made ten thousand others: recorded, and explained
// once.
func BenchmarkLedger(b *testing.B) {
	const n = 10_000
	ledger, writer := trc.NewLedger(2*n), trc.Writer{Controller: "c", Primary: trc.Key{Namespace: "default", Name: "p"}}
	page := ledger.Open(writer)
	uid := func(i int) types.UID { return types.UID("11111111-2222-3333-4444-" + strconv.Itoa(i)) }
	for i := range n {
		page.Record(trc.Edge{UID: uid(i), To: strconv.Itoa(i)})
	}
	own := uid(n)
	b.ReportAllocs()
	for b.Loop() {
		second := ledger.Open(writer)
		second.Record(trc.Edge{UID: own, From: "1", To: "2"})
		if !ledger.Explains(writer, own, "1", "2") {
			b.Fatal("it is not explained")
		}
		second.Close()
	}
}

// BenchmarkCacheBytes reports the memory of a cached object, the object included.
func BenchmarkCacheBytes(b *testing.B) {
	for name, fill := range cacheFillings(b) {
		b.Run(name, func(b *testing.B) {
			bytes := 0.0
			for b.Loop() {
				bytes = bytesEach(fill)
			}
			b.ReportMetric(bytes, "B/object")
		})
	}
}

const cached = 20_000

// cacheFillings fill a cache of each sort and return it.
func cacheFillings(tb testing.TB) map[string]func() any {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	fresh := func(prepare func(*corev1.ConfigMap) *corev1.ConfigMap) []any {
		all := make([]any, cached)
		for i := range all {
			all[i] = prepare(benchmarkObject(i, i+1))
		}
		return all
	}
	bare := func(o *corev1.ConfigMap) *corev1.ConfigMap { return o }
	store := func(objects []any) any {
		s, w := newBenchmarkStore(tb, 0)
		if err := w.Replace(objects, strconv.Itoa(cached)); err != nil {
			tb.Fatal(err)
		}
		return s
	}
	return map[string]func() any{
		"store":                         func() any { return store(fresh(bare)) },
		"store, managed":                func() any { return store(fresh(managed)) },
		"indexer":                       func() any { return newIndexer(tb, byNamespace, fresh(bare)) },
		"indexer without any namespace": func() any { return newIndexer(tb, nil, fresh(bare)) },
		"indexer, managed":              func() any { return newIndexer(tb, byNamespace, fresh(managed)) },
	}
}

func bytesEach(fill func() any) float64 {
	before := heap()
	filled := fill()
	after := heap()
	runtime.KeepAlive(filled)
	return float64(after-before) / cached
}

// heap is the bytes in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestGetAllocatesNothing(t *testing.T) {
	s, _ := newBenchmarkStore(t, 10)
	key := trc.KeyOf(benchmarkObject(3, 1))
	if allocations := testing.AllocsPerRun(100, func() { _ = s.Get(key) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
