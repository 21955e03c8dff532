package eventsource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

var webPage = schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}

// offers is a sink that records what is offered.
type offers struct {
	primaries []string
	causes    []eventsource.Offer
}

func (o *offers) Offer(primary trc.Key, offer eventsource.Offer) {
	o.primaries = append(o.primaries, primary.String())
	o.causes = append(o.causes, offer)
}

// expect checks the primaries that were offered since it was last called.
func (o *offers) expect(t *testing.T, primaries ...string) {
	t.Helper()
	if !slices.Equal(o.primaries, primaries) {
		t.Errorf("offered %q, want %q", o.primaries, primaries)
	}
	o.primaries, o.causes = nil, nil
}

// configMap makes one that refers to primaries by a label: "a", or "a_b" for two.
func configMap(version, primaries string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "shared", UID: "u1", ResourceVersion: version,
		Labels: map[string]string{"primaries": primaries},
	}}
}

func byLabel(o trc.Object) []trc.Key {
	var keys []trc.Key
	for _, name := range strings.Split(o.GetLabels()["primaries"], "_") {
		if name != "" {
			keys = append(keys, trc.Key{Namespace: o.GetNamespace(), Name: name})
		}
	}
	return keys
}

// started returns a started informer, its sink, and the watch and store under it.
func started(t *testing.T, options eventsource.InformerOptions) (*eventsource.Informer, *offers, *trc.Watch) {
	t.Helper()
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	watch := store.AddWatch("")
	options.Name, options.Kind = "configmap", "ConfigMap"
	informer := eventsource.NewInformer(store, options)
	sink := &offers{}
	stop, err := informer.Start(sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	must(t, watch.Replace(nil, "10"))
	return informer, sink, watch
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOwnedByMatchesGroupAndKindWhateverTheVersion(t *testing.T) {
	for _, c := range []struct {
		name, apiVersion, kind string
		want                   []trc.Key
	}{
		{"version in use", "samples.evenkeel.dev/v1", "WebPage", []trc.Key{{Namespace: "ns", Name: "page"}}},
		{"older version", "samples.evenkeel.dev/v1alpha1", "WebPage", []trc.Key{{Namespace: "ns", Name: "page"}}},
		{"other kind", "samples.evenkeel.dev/v1", "WebSite", nil},
		{"other group", "evenkeel.dev/v1", "WebPage", nil},
		{"core group", "v1", "WebPage", nil},
		{"no API version at all", "a/b/c", "WebPage", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := configMap("5", "")
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: c.apiVersion, Kind: c.kind, Name: "page"}}
			if got := eventsource.OwnedBy(webPage, false)(o); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestOwnedByTakesAllOwnersOfTheKind(t *testing.T) {
	o := configMap("5", "")
	o.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "one"},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"},
		{APIVersion: "samples.evenkeel.dev/v2", Kind: "WebPage", Name: "two"},
	}
	want := []trc.Key{{Namespace: "ns", Name: "one"}, {Namespace: "ns", Name: "two"}}
	if got := eventsource.OwnedBy(webPage, false)(o); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOwnedByOfAClusterScopedPrimaryHasNoNamespace(t *testing.T) {
	o := configMap("5", "")
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "page"}}
	if got, want := eventsource.OwnedBy(webPage, true)(o), []trc.Key{{Name: "page"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSelfMapsAnObjectToItself(t *testing.T) {
	if got, want := eventsource.Self(configMap("5", "")), []trc.Key{{Namespace: "ns", Name: "shared"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestC53_PrimariesOfOldAndNewAreOfferedOnceEach(t *testing.T) {
	_, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, watch.Add(configMap("11", "a_b")))
	sink.expect(t, "ns/a", "ns/b")
	must(t, watch.Update(configMap("12", "b_c")))
	sink.expect(t, "ns/a", "ns/b", "ns/c") // a: its reference was dropped
	must(t, watch.Update(configMap("13", "c_c")))
	sink.expect(t, "ns/b", "ns/c")
	must(t, watch.Update(configMap("14", "")))
	sink.expect(t, "ns/c")
	must(t, watch.Delete(configMap("15", "")))
	sink.expect(t)
}

func TestO17_APrimaryIsToldIfAnObjectOnlyNowBecameItsOwn(t *testing.T) {
	_, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, watch.Add(configMap("11", "a")))
	must(t, watch.Update(configMap("12", "a_b")))
	must(t, watch.Delete(configMap("13", "a_b")))
	var entered []bool
	for _, offer := range sink.causes {
		entered = append(entered, offer.Cause.(timeline.Resource).Entered)
	}
	sink.expect(t, "ns/a", "ns/a", "ns/b", "ns/a", "ns/b")
	if want := []bool{false, false, true, false, false}; !slices.Equal(entered, want) {
		t.Errorf("entered: %v, want %v: only b by the update", entered, want)
	}
}

func TestO8_OwnWriteIsOfferedAndItsEchoIsNot(t *testing.T) {
	informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, informer.Store().Acknowledge(configMap("11", "a_b"), trc.Proof{}))
	sink.expect(t, "ns/a", "ns/b")
	must(t, watch.Add(configMap("11", "a_b")))
	sink.expect(t)
}

func TestC47_ADeletionIsOfferedIfReadersSawTheObjectAndOnlyThen(t *testing.T) {
	informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, watch.Delete(configMap("11", "a"))) // it was never visible
	sink.expect(t)
	must(t, watch.Add(configMap("12", "a")))
	must(t, watch.Delete(configMap("13", "a")))
	sink.expect(t, "ns/a", "ns/a")
	must(t, informer.Store().Acknowledge(configMap("20", "a"), trc.Proof{}))
	sink.expect(t, "ns/a")
	informer.Store().AcknowledgeGone(trc.Key{Namespace: "ns", Name: "shared"}, "u1", "20")
	sink.expect(t, "ns/a")
	must(t, watch.Delete(configMap("21", "a"))) // known to be gone
	sink.expect(t)
}

func TestC48_WhatComesWhileAWriteFailsIsOffered(t *testing.T) {
	informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, watch.Add(configMap("11", "a")))
	// While a write is under way, before any acknowledgement.
	must(t, watch.Update(configMap("12", "a")))
	must(t, watch.Update(configMap("13", "a")))
	sink.expect(t, "ns/a", "ns/a", "ns/a")
	if now := informer.Store().Get(trc.Key{Namespace: "ns", Name: "shared"}); now.GetResourceVersion() != "13" || informer.Store().Ahead() != 0 {
		t.Errorf("shown is %v", now)
	}
}

func TestOfferSaysWhatChanged(t *testing.T) {
	_, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	resource := timeline.Resource{Source: "configmap", Kind: "ConfigMap", Namespace: "ns", Name: "shared", UID: "u1"}
	for _, step := range []struct {
		err      error
		action   timeline.Action
		old, new string
	}{
		{watch.Add(configMap("11", "a")), timeline.Added, "", "11"},
		{watch.Update(configMap("12", "a")), timeline.Updated, "11", "12"},
		{watch.Delete(configMap("13", "a")), timeline.Deleted, "12", ""},
	} {
		must(t, step.err)
		want := resource
		want.Action, want.OldVersion, want.NewVersion = step.action, step.old, step.new
		got := sink.causes[0]
		sink.causes = sink.causes[1:]
		if got.Cause != want || got.Initial {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestC52_ReplacedSecondaryIsADeletionAndAnAddition(t *testing.T) {
	var seen []string
	_, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel, Filter: func(before, after trc.Object) bool {
		seen = append(seen, versionOf(before)+" to "+versionOf(after))
		return true
	}})
	must(t, watch.Add(configMap("11", "a")))
	other := configMap("13", "b")
	other.UID = types.UID("u2")
	must(t, watch.Replace([]any{other}, "13"))
	sink.expect(t, "ns/a", "ns/a", "ns/b")
	if want := []string{"nothing to 11", "11 to nothing", "nothing to 13"}; !slices.Equal(seen, want) {
		t.Errorf("the filter saw %q, want %q", seen, want)
	}
}

func versionOf(o trc.Object) string {
	if o == nil {
		return "nothing"
	}
	return o.GetResourceVersion()
}

func TestO18_FilterSeesWhatReadersSawBeforeAndAfter(t *testing.T) {
	var seen []string
	informer, sink, watch := started(t, eventsource.InformerOptions{Map: byLabel, Filter: func(before, after trc.Object) bool {
		seen = append(seen, versionOf(before)+" to "+versionOf(after))
		return after == nil || after.GetResourceVersion() != "13"
	}})
	must(t, watch.Add(configMap("11", "a")))
	must(t, informer.Store().Acknowledge(configMap("13", "a"), trc.Proof{})) // the filter rejects it
	sink.expect(t, "ns/a")
	must(t, watch.Update(configMap("12", "a"))) // never seen by any reader
	must(t, watch.Update(configMap("14", "a")))
	must(t, watch.Delete(configMap("15", "a")))
	sink.expect(t, "ns/a", "ns/a")
	if want := []string{"nothing to 11", "11 to 13", "13 to 14", "14 to nothing"}; !slices.Equal(seen, want) {
		t.Errorf("the filter saw %q, want %q", seen, want)
	}
}

func TestC51_OfReadsThroughTheOverlay(t *testing.T) {
	informer, _, watch := started(t, eventsource.InformerOptions{Map: byLabel})
	must(t, watch.Add(configMap("11", "a")))
	of := func(name string) string {
		found, err := informer.Of(trc.Key{Namespace: "ns", Name: name})
		must(t, err)
		var versions []string
		for _, o := range found {
			versions = append(versions, versionOf(o))
		}
		return strings.Join(versions, " ")
	}
	must(t, informer.Store().Acknowledge(configMap("12", "b"), trc.Proof{}))
	if of("a") != "" || of("b") != "12" {
		t.Errorf("after the write: a has %q, b has %q", of("a"), of("b"))
	}
	informer.Store().AcknowledgeGone(trc.Key{Namespace: "ns", Name: "shared"}, "u1", "12")
	if of("b") != "" {
		t.Errorf("after the delete: b has %q", of("b"))
	}
}

func TestC74_WhatWasThereBeforeTheStartIsOfferedAsInitial(t *testing.T) {
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	watch := store.AddWatch("")
	must(t, watch.Replace([]any{configMap("5", "a")}, "10"))
	informer := eventsource.NewInformer(store, eventsource.InformerOptions{Name: "configmap", Kind: "ConfigMap", Map: byLabel})
	<-informer.Synced()
	sink := &offers{}
	stop, err := informer.Start(sink)
	must(t, err)
	if len(sink.causes) != 1 || !sink.causes[0].Initial {
		t.Errorf("offered %+v", sink.causes)
	}
	sink.expect(t, "ns/a")
	stop()
	must(t, watch.Update(configMap("11", "a")))
	sink.expect(t)
}

func TestTwoInformersOverOneStoreNeedTwoIndexes(t *testing.T) {
	informer, sink, _ := started(t, eventsource.InformerOptions{Map: byLabel})
	options := eventsource.InformerOptions{Name: "configmap", Kind: "ConfigMap", Map: byLabel}
	if _, err := eventsource.NewInformer(informer.Store(), options).Start(sink); err == nil {
		t.Error("the same index was taken twice")
	}
	options.Index = "other/configmap"
	stop, err := eventsource.NewInformer(informer.Store(), options).Start(sink)
	must(t, err)
	stop()
}

// printer is a sink that prints; the framework's puts the primary into the scheduler's queue.
type printer struct{}

func (printer) Offer(primary trc.Key, offer eventsource.Offer) {
	cause := offer.Cause.(timeline.Resource)
	fmt.Println(primary, "is due:", cause.Kind, cause.Name, cause.NewVersion)
}

func ExampleInformer() {
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	watch := store.AddWatch("")
	informer := eventsource.NewInformer(store, eventsource.InformerOptions{
		Name: "configmap", Kind: "ConfigMap",
		Map: eventsource.OwnedBy(schema.GroupKind{Group: "samples.evenkeel.dev", Kind: "WebPage"}, false),
	})
	stop, err := informer.Start(printer{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	_ = watch.Replace([]any{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "html", UID: "u1", ResourceVersion: "5",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "page"}},
	}}}, "10")
	secondaries, _ := informer.Of(trc.Key{Namespace: "web", Name: "page"})
	fmt.Println("secondaries:", len(secondaries))
	// Output:
	// web/page is due: ConfigMap html 5
	// secondaries: 1
}
