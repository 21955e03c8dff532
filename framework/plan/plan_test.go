package plan_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/plan"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		if err != nil {
			t.Fatal(err)
		}
		m, err := apimodel.New(apimodel.Options{Kinds: kinds, Defaults: true})
		if err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		_ = clientgoscheme.AddToScheme(scheme)
		_ = v1.AddToScheme(scheme)
		c, _ := client.New(m.Config(), scheme)
		p := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}, Spec: v1.WebPageSpec{HTML: "<p>hello</p>", Exposed: true}}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		before := len(m.History())
		r, err := plan.Run(context.Background(), m.Config(), framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard()}, webpage.Register, plan.Options{Progress: func(p plan.Progress) { fmt.Println(p) }})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(r, r.ExitCode(), len(m.History())-before)
	})
}
