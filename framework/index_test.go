package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

// wordsOf files ConfigMaps under the words of their data.
func wordsOf(o *corev1.ConfigMap) []string {
	if o.Data["data"] == "boom" {
		panic("boom")
	}
	return strings.Fields(o.Data["data"])
}

func pagesByHTML() *framework.Index[*Page] {
	return &framework.Index[*Page]{Name: "html", Values: func(p *Page) []string { return []string{p.Spec.HTML} }}
}

// pageNames are those of a look-up, sorted, or its error.
func pageNames(all []*Page, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestC51AnIndexFollowsOwnWritesAtOnce, also those that move an object to another value, and
// forgets what is gone.
func TestC51AnIndexFollowsOwnWritesAtOnce(t *testing.T) {
	words := &framework.Index[*corev1.ConfigMap]{Values: wordsOf}
	r := looking(nil)
	r.look = func(ctx context.Context, _ *Page, c *pageContext) string {
		if r.hasLooked() {
			return "" // the run that follows the deletion
		}
		under := func(value string) string {
			one, err := words.Get(c, value)
			return told(words.List(c, value)) + "|" + toldOne(one, err)
		}
		var lines []string
		for _, data := range []string{"red green", "green blue", "-"} {
			var err error
			if data == "-" {
				own, failed := r.configMaps.Get(c)
				err = errors.Join(failed, framework.Delete(ctx, c, own))
			} else {
				_, err = framework.Apply(ctx, c, dataOf("own", data), framework.OwnedByPrimary())
			}
			if err != nil {
				return err.Error()
			}
			lines = append(lines, under("red")+", "+under("green")+", "+under("blue"))
		}
		return strings.Join(lines, "; ")
	}
	r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{words}
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		v.model.Lag("configmaps", time.Minute)
		v.createPage("p", "a")
		v.pass(time.Hour)
		first, second := "own=red green|own=red green", "own=green blue|own=green blue"
		r.expect(t, "p: ", "p: "+first+", "+first+", |; |, "+second+", "+second+"; |, |, |")
	})
}

// TestAnIndexFindsWhatBelongsToOthersToo, of secondaries and of primaries, with an error where one
// is wanted and there are several.
func TestAnIndexFindsWhatBelongsToOthersToo(t *testing.T) {
	words, byHTML := &framework.Index[*corev1.ConfigMap]{Name: "words", Values: wordsOf}, pagesByHTML()
	r := looking(func(_ context.Context, page *Page, c *pageContext) string {
		var each []*corev1.ConfigMap
		for o, err := range words.Each(c, "red") {
			if err != nil {
				return err.Error()
			}
			each = append(each, o)
		}
		one, err := words.Get(c, "red")
		return strings.Join([]string{
			told(words.List(c, "red")), told(each, nil), toldOne(one, err), told(words.List(c, "boom")), pageNames(byHTML.List(c, page.Spec.HTML)),
		}, "; ")
	})
	r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{words}
	options := pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Indexes: []*framework.Index[*Page]{byHTML}}
	inVirtualTime(t, r, options, func(v *virtual) {
		v.create(dataOf("x", "red red"))
		v.create(dataOf("y", "blue red"))
		v.create(dataOf("z", "boom"))
		v.pass(time.Second)
		v.createPage("p", "b")
		v.pass(time.Second)
		ambiguous := `error framework: get the object under "red" of index "words" of *v1.ConfigMap: there are 2: default/x, default/y`
		red := "x=red red y=blue red; x=red red y=blue red; " + ambiguous + "; "
		r.expect(t, "p: "+red+"; p")
		v.createPage("q", "b")
		v.pass(time.Second)
		r.expect(t, "q: "+red+"; p q")
		v.patch(newPage("default", "p"), `{"spec":{"html":"c"}}`)
		v.pass(time.Second)
		v.patch(newPage("default", "q"), `{"spec":{"html":"d"}}`)
		v.pass(time.Second)
		r.expect(t, "p: "+red+"; p", "q: "+red+"; q")
	})
}

// TestIndexesOfSeveralControllersDoNotMeet, though their names are one and they share the cache.
func TestIndexesOfSeveralControllersDoNotMeet(t *testing.T) {
	overModel(t, func(m *modelled) {
		var lookers []*lookers
		op, err := framework.NewOperator(m.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme})
		noError(t, err)
		for i, name := range []string{"one", "two"} {
			byName := &framework.Index[*corev1.ConfigMap]{Name: "same", Values: func(o *corev1.ConfigMap) []string { return []string{o.Name + fmt.Sprint(i)} }}
			byPage := &framework.Index[*Page]{Name: "same", Values: func(p *Page) []string { return []string{p.Name + fmt.Sprint(i)} }}
			r := looking(func(_ context.Context, _ *Page, c *pageContext) string {
				return strings.Join([]string{
					told(byName.List(c, "x0")), told(byName.List(c, "x1")), pageNames(byPage.List(c, "p0")), pageNames(byPage.List(c, "p1")),
				}, "; ")
			})
			r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{byName}
			noError(t, framework.Register(op, r, pageOptions{
				Name: name, Secondaries: framework.Secondaries(&r.configMaps), Indexes: []*framework.Index[*Page]{byPage},
			}))
			lookers = append(lookers, r)
		}
		m.createConfigMap("x", map[string]any{"data": "1"})
		m.createPage("p")
		ctx, stop := context.WithCancel(m.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(ctx) }()
		time.Sleep(time.Minute)
		lookers[0].expect(t, "p: x=1; ; p; ")
		lookers[1].expect(t, "p: ; x=1; ; p")
		if caches := op.Occupancy().Caches; len(caches) != 2 {
			t.Errorf("caches %v, want two that are shared", caches)
		}
		stop()
		noError(t, <-done)
	})
}

// TestAnIndexOfWhatIsReferredToIsLookedUpLikeAnyOther.
func TestAnIndexOfWhatIsReferredToIsLookedUpLikeAnyOther(t *testing.T) {
	words := &framework.Index[*corev1.ConfigMap]{Values: wordsOf}
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string { return told(words.List(c, "red")) })
	r.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{words}
	referred := framework.Referred(&r.configMaps, func(*Page) []types.NamespacedName { return nil })
	inVirtualTime(t, r, pageOptions{Secondaries: framework.Secondaries(referred)}, func(v *virtual) {
		v.create(dataOf("x", "red"))
		v.pass(time.Second)
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: x=red")
	})
}

func TestIndexesThatMakeNoSenseAreRefusedAllAtOnce(t *testing.T) {
	byHTML, words := pagesByHTML(), &framework.Index[*corev1.ConfigMap]{Name: "words", Values: wordsOf}
	again := &framework.Index[*corev1.ConfigMap]{Name: "words", Values: wordsOf}
	one := framework.Secondary[*corev1.ConfigMap]{Name: "one", Indexes: []*framework.Index[*corev1.ConfigMap]{words, again, nil, {}}}
	two := framework.Secondary[*corev1.ConfigMap]{Name: "two", Indexes: []*framework.Index[*corev1.ConfigMap]{words}}
	err := framework.Register(offline(t), &pages{}, pageOptions{
		Indexes: []*framework.Index[*Page]{byHTML, byHTML, nil}, Secondaries: framework.Secondaries(&one, &two),
	})
	expectError(t, err, `index "html": is one of this controller already`, `controller "webpage": index`, `index 2 is nil`,
		`secondary "one": two indexes named "words"`, `index 2 is nil`, `index "3": Values is nil`, `secondary "two": index "words": is one of this controller already`)
}

func TestAnIndexOfNoSourceIsAnError(t *testing.T) {
	r := looking(func(_ context.Context, _ *Page, c *pageContext) string { return pageNames(pagesByHTML().List(c, "a")) })
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, `p: error framework: index "html" of *v1.WebPage is neither among ControllerOptions.Indexes nor Secondary.Indexes of the controller`)
	})
}
