package framework_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// secretWith is a Secret of stringData.
func secretWith(text map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: maps.Clone(text)}
}

func untypedSecretWith(text map[string]string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "default", "name": "s"}, "stringData": text,
	}}
}

// TestStringDataOfASecretIsSentAsData in every way to write a desired Secret: so what is as desired
// takes no request, and what is not desired any more goes.
func TestStringDataOfASecretIsSentAsData(t *testing.T) {
	type write func(ctx context.Context, c framework.Writes, text map[string]string) error
	typed := func(options ...framework.WriteOption) write {
		return func(ctx context.Context, c framework.Writes, text map[string]string) error {
			desired := secretWith(text)
			_, err := framework.Apply(ctx, c, desired, options...)
			if !maps.Equal(desired.StringData, text) || len(desired.Data) > 0 {
				t.Errorf("the author's Secret was changed to %v, %v", desired.StringData, desired.Data)
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		write write
		stays bool
	}{
		"typed":                        {typed(), false},
		"typed, owned":                 {typed(framework.OwnedByPrimary()), false},
		"by patch":                     {typed(framework.WithMode(framework.ByPatch)), true},
		"typed, under another manager": {typed(framework.FieldManager("another")), false},
		"untyped": {func(ctx context.Context, c framework.Writes, text map[string]string) error {
			_, err := framework.Apply(ctx, c, untypedSecretWith(text))
			return err
		}, false},
		"untyped by patch": {func(ctx context.Context, c framework.Writes, text map[string]string) error {
			_, err := framework.Apply(ctx, c, untypedSecretWith(text), framework.WithMode(framework.ByPatch))
			return err
		}, true},
		"by an apply configuration": {func(ctx context.Context, c framework.Writes, text map[string]string) error {
			_, err := framework.ApplyConfiguration[*corev1.Secret](ctx, c, applycorev1.Secret("s", "default").WithStringData(text))
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				var mu sync.Mutex
				var sent []string
				m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
					if r.Resource == "secrets" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
						mu.Lock()
						defer mu.Unlock()
						sent = append(sent, string(r.Body))
					}
					return apimodel.Fault{}
				})
				secrets := &framework.Secondary[*corev1.Secret]{}
				r := &pages{}
				r.reconcile = func(ctx context.Context, page *Page, run *pageContext) (pageUpdate, error) {
					text := map[string]string{"ours": "ä"}
					for _, key := range strings.Fields(page.Spec.HTML) {
						text[key] = key
					}
					return pageUpdate{}, c.write(ctx, run, text)
				}
				stop := m.operate(r, pageOptions{AllGenerations: true, Secondaries: framework.Secondaries(secrets)})
				defer stop()
				expect := func(requests int, want string) {
					t.Helper()
					time.Sleep(time.Second)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					if len(sent) != requests || strings.Contains(fmt.Sprint(sent), "stringData") {
						t.Errorf("sent %q, want %d requests", sent, requests)
					}
					sent = nil
					o := m.must(m.secret())
					data, _, _ := unstructured.NestedStringMap(o.Object, "data")
					var got []string
					for _, key := range slices.Sorted(maps.Keys(data)) {
						value, _ := base64.StdEncoding.DecodeString(data[key])
						got = append(got, key+"="+string(value))
					}
					if strings.Join(got, " ") != want {
						t.Errorf("there is %q, want %q", got, want)
					}
				}
				m.createPageWith("p", "a b")
				expect(1, "a=a b=b ours=ä")
				m.patch(m.pages, "p", `{"metadata":{"labels":{"x":"y"}}}`)
				expect(0, "a=a b=b ours=ä")
				m.patch(m.pages, "p", `{"spec":{"html":"a"}}`)
				if c.stays {
					expect(0, "a=a b=b ours=ä")
				} else {
					expect(1, "a=a ours=ä")
				}
			})
		})
	}
}

// secret reads the Secret past all caches.
func (m *modelled) secret() (*unstructured.Unstructured, error) {
	client, err := dynamic.NewForConfig(m.model.Config())
	noError(m.T, err)
	return client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("default").Get(m.Context(), "s", metav1.GetOptions{})
}

// TestStringDataThatIsNoneIsRefused before anything is sent.
func TestStringDataThatIsNoneIsRefused(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.once(func(ctx context.Context, _ *Page, c *pageContext, _ *framework.Secondary[*corev1.ConfigMap]) {
			for what, wrong := range map[string]any{`stringData["n"]: must be a string`: map[string]any{"n": 7}, "stringData: must be a map": "x"} {
				o := untypedSecretWith(nil)
				o.Object["stringData"] = wrong
				_, err := framework.Apply(ctx, c, o)
				_, created := framework.Create(ctx, c, o)
				for _, err := range []error{err, created} {
					if err == nil || !strings.Contains(err.Error(), what) {
						t.Errorf("got %v, want %q", err, what)
					}
				}
			}
		})
	})
}

// TestTheDifferenceOfSecretsIsThatOfTheirData.
func TestTheDifferenceOfSecretsIsThatOfTheirData(t *testing.T) {
	before := secretWith(nil)
	before.Data = map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	after := before.DeepCopy()
	after.StringData = map[string]string{"a": "1", "b": "2"}
	untypedBefore, untypedAfter := unstructuredly(t, before), unstructuredly(t, after)
	for _, o := range []*unstructured.Unstructured{untypedBefore, untypedAfter} {
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	}
	for _, c := range [][2]framework.Object{{before, after}, {untypedBefore, untypedAfter}} {
		if patch, err := framework.Difference(c[0], c[1]); err != nil || patch != nil {
			t.Errorf("%T: got %s, %v", c[0], patch, err)
		}
	}
	after.StringData["b"] = "3"
	if patch, err := framework.Difference(before, after); err != nil || string(patch) != `{"data":{"b":"Mw=="}}` {
		t.Errorf("got %s, %v", patch, err)
	}
}

func unstructuredly(t *testing.T, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
