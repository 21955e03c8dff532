package framework_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
)

// anyPages reconciles pages whose type only the scheme knows.
type anyPages struct {
	configMaps framework.Secondary[framework.Object]
	seen       []string
	cleaned    int
}

type anyContext = framework.Context[framework.Object]

func (r *anyPages) Reconcile(ctx context.Context, o framework.Object, c *anyContext) (framework.UpdateControl[framework.Object], error) {
	page := o.(*Page)
	found, err := r.configMaps.Get(c)
	if err != nil {
		return framework.NoUpdate[framework.Object](), err
	}
	shown := "none"
	if found != nil {
		shown = found.(*corev1.ConfigMap).Data["data"]
	}
	r.seen = append(r.seen, fmt.Sprintf("%s of %s", shown, page.Spec.HTML))
	var desired framework.Object = configMapOf(page, page.Spec.HTML)
	written, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
	if err != nil {
		return framework.NoUpdate[framework.Object](), err
	}
	page.Status.URL = "/" + written.(*corev1.ConfigMap).Data["data"]
	return framework.PatchStatus[framework.Object](page), nil
}

func (r *anyPages) Cleanup(context.Context, framework.Object, *anyContext) (framework.DeleteControl, error) {
	r.cleaned++
	return framework.RemoveFinalizer(), nil
}

// With Object as the type, the scheme makes the objects, and all holds that holds for a type of its
// own: freshness, own writes, finalizers.
func TestTheSchemeMakesTheObjectsOfAnInterface(t *testing.T) {
	r := &anyPages{}
	r.configMaps.GroupVersionKind = configMapKind
	options := framework.ControllerOptions[framework.Object]{
		GroupVersionKind: pageKind, Secondaries: framework.Secondaries(&r.configMaps),
		UpdateFilter: func(old, new framework.Object) bool { return old.(*Page).UID == new.(*Page).UID },
	}
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.as("user", newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		v.as("user", configMapOf(v.page("p"), ""), `{"data":{"data":"x"}}`)
		v.pass(time.Minute)
		if got := strings.Join(r.seen, ", "); got != "none of a, a of b, x of b" {
			t.Errorf("seen %q", got)
		}
		if p := v.page("p"); p.Status.URL != "/b" || len(p.Finalizers) != 1 {
			t.Errorf("the page is %+v", p)
		}
		noError(t, v.admin.Delete(t.Context(), newPage("default", "p")))
		v.pass(time.Minute)
		if r.cleaned != 1 {
			t.Errorf("cleaned up %d times", r.cleaned)
		}
	})
}

func TestTheKindOfAnInterfaceMustBeKnown(t *testing.T) {
	register := func(primary, secondary schema.GroupVersionKind) error {
		op, err := framework.NewOperator(&rest.Config{Host: "localhost"}, framework.OperatorOptions{Scheme: scheme})
		noError(t, err)
		r := &anyPages{}
		r.configMaps.GroupVersionKind = secondary
		return framework.Register(op, r, framework.ControllerOptions[framework.Object]{GroupVersionKind: primary, Secondaries: framework.Secondaries(&r.configMaps)})
	}
	unknown := schema.GroupVersionKind{Group: "example.com", Version: "v9", Kind: "Nothing"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no kind of the primaries":      {register(schema.GroupVersionKind{}, configMapKind), "GroupVersionKind: must be set"},
		"no kind of the secondaries":    {register(pageKind, schema.GroupVersionKind{}), "GroupVersionKind: must be set"},
		"unknown kind of the primaries": {register(unknown, configMapKind), `no kind "Nothing"`},
		"unknown kind of a secondary":   {register(pageKind, unknown), `no kind "Nothing"`},
		"no object":                     {register(corev1.SchemeGroupVersion.WithKind("ListOptions"), configMapKind), "is no object"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
