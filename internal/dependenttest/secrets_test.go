package dependenttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
)

// generator desires Secrets with a password that is another each time, and what the page's HTML
// names besides.
type generator struct{ passwords int }

func (g *generator) secret(page *Page) *corev1.Secret {
	g.passwords++
	o := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		StringData: map[string]string{"password": fmt.Sprint("generated ", g.passwords)},
	}
	for _, name := range strings.Fields(page.Spec.HTML) {
		o.StringData[name] = "x"
	}
	return o
}

func (g *generator) untyped(page *Page) *unstructured.Unstructured {
	text := map[string]string{} // no type of plain JSON
	for key, value := range g.secret(page).StringData {
		text[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": page.Namespace, "name": page.Name}, "stringData": text,
	}}
}

// keepsItsPassword runs a reconciler that brings about generated Secrets with an immutable
// password, and no other key than "a" or "b".
func keepsItsPassword(t *testing.T, drops bool, secondaries []framework.SecondarySource, reconcile func(ctx context.Context, c *pageContext) error) {
	t.Helper()
	r := standalone(reconcile)
	options := reading(secondaries...)
	options.AllGenerations = true
	inVirtualTime(t, r, options, func(v *virtual) {
		expect := func(what string, want map[string]string) {
			t.Helper()
			v.pass(time.Second)
			o := now(v, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}})
			got := map[string]string{}
			for key, value := range o.Data {
				got[key] = string(value)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s it holds %v, want %v", what, got, want)
			}
			for _, err := range r.results() {
				noError(t, err)
			}
		}
		v.create(newPage("p", "a b"))
		expect("at first", map[string]string{"a": "x", "b": "x", "password": "generated 1"})
		if drops {
			v.expectWrites("apply secrets p")
		} else {
			v.expectWrites("create secrets p")
		}
		for _, n := range []string{"1", "2", "3"} {
			v.patch(newPage("p", ""), `{"metadata":{"labels":{"run":"`+n+`"}}}`)
			expect("run again", map[string]string{"a": "x", "b": "x", "password": "generated 1"})
		}
		v.expectWrites()
		v.patch(newPage("p", ""), `{"spec":{"html":"a"}}`)
		if drops {
			expect("without b", map[string]string{"a": "x", "password": "generated 1"})
		} else {
			expect("without b, which a patch leaves", map[string]string{"a": "x", "b": "x", "password": "generated 1"})
		}
		v.patch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}, `{"stringData":{"a":"scribbled","b":null}}`)
		v.pass(time.Second)
		if o := now(v, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}); string(o.Data["a"]) != "x" || string(o.Data["password"]) != "generated 1" {
			t.Errorf("after an edit it holds %s", o.Data)
		}
	})
}

// TestUnmodifiableDependentPartITAGeneratedPasswordStays, also where it is desired as stringData,
// which no stored Secret has.
func TestUnmodifiableDependentPartITAGeneratedPasswordStays(t *testing.T) {
	for name, access := range map[string]dependent.Access{"applied": dependent.Applied, "patched": dependent.Patched} {
		for field, immutable := range map[string][]string{"the key": {"/data/password"}, "and more": {"/data/password", "/data/none"}} {
			t.Run(name+" "+field, func(t *testing.T) {
				g := &generator{}
				k := &dependent.Kubernetes[*Page, *corev1.Secret]{Access: access, Immutable: immutable}
				k.Desired = func(_ context.Context, page *Page, _ *pageContext) (*corev1.Secret, error) {
					return g.secret(page), nil
				}
				keepsItsPassword(t, access == dependent.Applied, k.Secondaries(), alone(k))
			})
		}
	}
	t.Run("untyped", func(t *testing.T) {
		g := &generator{}
		k := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Immutable: []string{"/data/password"}}
		k.Desired = func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
			return g.untyped(page), nil
		}
		k.Secondary.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("Secret")
		keepsItsPassword(t, true, k.Secondaries(), alone(k))
	})
	t.Run("of a set", func(t *testing.T) {
		g := &generator{}
		b := &dependent.Bulk[*Page, *corev1.Secret]{Immutable: []string{"/data/password"}}
		b.Desired = func(_ context.Context, page *Page, _ *pageContext) ([]*corev1.Secret, error) {
			return []*corev1.Secret{g.secret(page)}, nil
		}
		keepsItsPassword(t, true, b.Secondaries(), func(ctx context.Context, c *pageContext) error {
			_, err := b.Reconcile(ctx, c)
			return err
		})
	})
}

// TestAllDataOfASecretMayBeImmutable, whatever stringData says then.
func TestAllDataOfASecretMayBeImmutable(t *testing.T) {
	g := &generator{}
	k := &dependent.Kubernetes[*Page, *corev1.Secret]{Immutable: []string{"/data"}}
	k.Desired = func(_ context.Context, page *Page, _ *pageContext) (*corev1.Secret, error) {
		return g.secret(page), nil
	}
	inVirtualTime(t, standalone(alone(k)), reading(k.Secondaries()...), func(v *virtual) {
		v.create(newPage("p", "a"))
		v.expectWrites("apply secrets p")
		v.patch(newPage("p", ""), `{"spec":{"html":"a b"}}`)
		v.expectWrites()
		o := now(v, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}})
		if len(o.Data) != 2 || string(o.Data["password"]) != "generated 1" {
			t.Errorf("it holds %s", o.Data)
		}
	})
}

// TestImmutableStringDataIsRefused at the registration, as it would hold nothing.
func TestImmutableStringDataIsRefused(t *testing.T) {
	single := &dependent.Kubernetes[*Page, *corev1.Secret]{Immutable: []string{"/stringData/pass~1word"}}
	single.Desired = func(context.Context, *Page, *pageContext) (*corev1.Secret, error) { return nil, nil }
	set := &dependent.Bulk[*Page, *corev1.Secret]{Immutable: []string{"/stringData"}}
	set.Desired = func(context.Context, *Page, *pageContext) ([]*corev1.Secret, error) { return nil, nil }
	untyped := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Immutable: []string{"/stringData/x"}}
	untyped.Desired = func(context.Context, *Page, *pageContext) (*unstructured.Unstructured, error) { return nil, nil }
	untyped.Secondary.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("Secret")
	for want, d := range map[string]framework.Dependent[*Page]{
		`use "/data/pass~1word"`: single, `use "/data"`: set, `use "/data/x"`: untyped,
	} {
		_, err := d.Describe()
		expectError(t, err, "Immutable", "/stringData", want)
	}
	other := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Immutable: []string{"/stringData/x"}}
	other.Desired = untyped.Desired
	other.Secondary.GroupVersionKind = gizmoKind
	if _, err := other.Describe(); err != nil {
		t.Errorf("of another kind: %v", err)
	}
}
