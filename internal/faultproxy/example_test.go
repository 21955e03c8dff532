package faultproxy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
)

func ExampleStart() {
	plan, err := faultproxy.Parse(strings.NewReader(`
rules:
- name: every-other-get
  match: {verbs: [get], resources: [namespaces]}
  when: {every: 2}
  do: {answer: {status: 503}}
`))
	if err != nil {
		panic(err)
	}
	proxy, err := faultproxy.Start(env.Config, plan)
	if err != nil {
		panic(err)
	}
	defer proxy.Stop()
	client := kubernetes.NewForConfigOrDie(proxy.Config())
	for range 4 {
		_, err := client.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{})
		fmt.Println(err == nil, apierrors.IsServiceUnavailable(err))
	}
	for _, entry := range proxy.Log() {
		fmt.Println(entry)
	}
	// Output:
	// true false
	// false true
	// true false
	// false true
	// every-other-get #2 get /api/v1/namespaces/default: did answer
	// every-other-get #4 get /api/v1/namespaces/default: did answer
}

// BenchmarkGet compares a small request through the proxy with one around it.
func BenchmarkGet(b *testing.B) {
	proxy, err := faultproxy.Start(env.Config, faultproxy.Plan{Rules: []faultproxy.Rule{
		faultproxy.Lag("lag", 1, "configmaps"),
		{Name: "never", When: faultproxy.When{Nth: 1 << 60}, Do: faultproxy.Action{Drop: true}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer proxy.Stop()
	through := proxy.Config()
	through.QPS, through.ContentType = -1, runtime.ContentTypeProtobuf
	around := *env.Config
	around.ContentType = runtime.ContentTypeProtobuf
	for name, client := range map[string]*kubernetes.Clientset{
		"around":  kubernetes.NewForConfigOrDie(&around),
		"through": kubernetes.NewForConfigOrDie(through),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
