package dependenttest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// fourKinds are a chain of dependents of each tie, and a set.
func fourKinds() []framework.Dependent[*Page] {
	marked := &configMap{Name: "marked", DependsOn: []string{"owned"}, Tie: dependent.Referenced}
	marked.Desired = func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
		return dataOf("elsewhere", page.Name, page.Spec.HTML), nil
	}
	return []framework.Dependent[*Page]{
		&configMap{Name: "owned", Desired: named("-owned")}, marked,
		&configMaps{Name: "words", DependsOn: []string{"marked"}, Desired: words, Tie: dependent.OwnedAndDeleted},
		&configMap{Name: "last", DependsOn: []string{"words"}, Desired: named("-last"), Tie: dependent.OwnedAndDeleted},
	}
}

// lives returns a scenario of a page with a workflow.
func lives(dependents func() []framework.Dependent[*Page], story func(w *frameworktest.World)) frameworktest.Scenario {
	return frameworktest.Scenario{
		CRDs: testenv.WebPageCRDs(), Scheme: scheme, Cluster: frameworktest.Bare, Story: story, Always: madeOnce,
		Register: func(op *framework.Operator) error {
			return framework.Register(op, nothing(), managing(dependents()...))
		},
	}
}

// madeOnce says that no ConfigMap was ever made twice.
func madeOnce(v frameworktest.Version) error {
	made := map[string]bool{}
	for _, o := range frameworktest.Ever[*corev1.ConfigMap](v) {
		if name := o.Namespace + "/" + o.Name; made[name] {
			return fmt.Errorf("%s was made twice", name)
		} else {
			made[name] = true
		}
	}
	return nil
}

// TestG13ACrashAtAnyWriteChangesNothingOfTheEnd, nor does any other fault, nor is anything made
// twice on the way to it. When the page changes, one of its words goes and another one comes.
func TestG13ACrashAtAnyWriteChangesNothingOfTheEnd(t *testing.T) {
	s := lives(fourKinds, func(w *frameworktest.World) {
		w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
		w.Create(newPage("p", "a=1 b=1"))
		w.Rest()
		w.Merge(newPage("p", ""), `{"spec":{"html":"b=2 c=1"}}`)
		w.Rest()
		expectData(w, "elsewhere/p=b=2 c=1", "p-last=b=2 c=1-last", "p-owned=b=2 c=1-owned")
		w.Delete(newPage("p", ""))
	})
	if report := frameworktest.Everywhere(t, s); len(report.Writes()) < 12 {
		t.Errorf("it only wrote %v", report.Writes())
	}
}

// expectData says that there are ConfigMaps with such data, NAMESPACE/NAME=DATA, and the one of the
// word that is wanted now.
func expectData(w *frameworktest.World, want ...string) {
	there := map[string]bool{}
	for _, o := range frameworktest.List[*corev1.ConfigMap](w) {
		name := o.Name
		if o.Namespace != w.Namespace {
			name = o.Namespace + "/" + name
		}
		there[name+"="+o.Data["data"]] = true
	}
	for _, one := range want {
		if !there[one] {
			w.Errorf("there is no %s in %v", one, there)
		}
	}
}

// TestAFormerObjectGoesAfterACrash between the creation of the new one and its deletion, and through
// every other fault.
func TestAFormerObjectGoesAfterACrash(t *testing.T) {
	former := func() []framework.Dependent[*Page] {
		return []framework.Dependent[*Page]{&configMap{Desired: calledAs(0)}}
	}
	s := lives(former, func(w *frameworktest.World) {
		w.Create(newPage("p", "a"))
		w.Rest()
		w.Merge(newPage("p", ""), `{"spec":{"html":"b"}}`)
		w.Rest()
	})
	s.End = func(w *frameworktest.World) {
		if all := frameworktest.List[*corev1.ConfigMap](w); len(all) != 1 || all[0].Name != "b" {
			w.Errorf("there are %d ConfigMaps, want b alone", len(all))
		}
	}
	frameworktest.Everywhere(t, s)
}
