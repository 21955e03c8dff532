package framework_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/timeline"
)

// reader is a listener that may want to know the fields.
type reader struct {
	listener
	wants bool
}

func (r *reader) WantsFields() bool { return r.wants }

// fieldless panics when it is asked.
type fieldless struct{ shaky }

func (fieldless) WantsFields() bool { panic("no") }

func TestFieldsThatChangedAreNamedIfSomebodyReadsThem(t *testing.T) {
	const secret = "tea for two"
	for name, c := range map[string]struct{ wants, keeps bool }{"nobody": {}, "an observer": {wants: true}, "records": {keeps: true}} {
		t.Run(name, func(t *testing.T) {
			r, told := &pages{}, &reader{wants: c.wants}
			secrets := framework.Secondary[*corev1.Secret]{Map: func(s *corev1.Secret) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: "default", Name: s.Name}}
			}}
			r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: "default", Name: m.Name}}
			}
			r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
			options := pageOptions{Secondaries: framework.Secondaries(&r.configMaps, &secrets)}
			if c.keeps {
				options.KeepRecords = 100
			}
			o := framework.OperatorOptions{Observers: []observe.Observer{fieldless{}, told}}
			inVirtualTimeOf(t, o, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
				v.createPage("p", "a")
				v.create(configMapOf(v.page("p"), "a"))
				kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, StringData: map[string]string{"password": "x"}}
				v.create(kept)
				v.pass(time.Minute)
				for _, change := range []struct {
					o     client.Object
					patch string
				}{
					{newPage("default", "p"), `{"spec":{"html":"` + secret + `"}}`},
					{configMapOf(v.page("p"), ""), `{"data":{"data":"` + secret + `"},"metadata":{"labels":{"example.com/a":"b"}}}`},
					{kept, `{"stringData":{"password":"` + secret + `"},"metadata":{"annotations":{"note":"` + strings.ReplaceAll(secret, " ", "-") + `"}}}`},
				} {
					v.patch(change.o, change.patch)
					v.pass(time.Minute)
				}
				told.mu.Lock()
				defer told.mu.Unlock()
				var fields []string
				for _, record := range told.records {
					for _, cause := range record.Causes {
						if text := cause.String(); strings.Contains(text, "tea") {
							t.Errorf("a value is told: %s", text)
						}
						if change, is := cause.(timeline.Resource); is && change.Fields != "" {
							fields = append(fields, change.Kind+" "+change.Fields)
						}
					}
				}
				want := ""
				if c.wants || c.keeps {
					want = "WebPage spec.html; ConfigMap data.data, metadata.labels; Secret data, metadata"
				}
				if got := strings.Join(fields, "; "); got != want {
					t.Errorf("told %q, want %q", got, want)
				}
			})
		})
	}
}
