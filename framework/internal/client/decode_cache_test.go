package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// In any order of calls: a taken object is what that very answer was decoded to, and is taken once.
// An event is missed only if another write of a later version has overtaken it, or if it had to
// make room.
func TestEchoesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e client.Cache
		e.Watch()
		expected := map[string]string{} // the name by the text
		sizes := rapid.SampledFrom([]int{10, 1000, 200_000, 900_000, 1_200_000})
		texts := []string{"never answered"}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "an answer") {
				name := fmt.Sprint("page-", step)
				text := name + strings.Repeat("x", sizes.Draw(t, "size"))
				e.Add(text+"\n", &page{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(step + 1)}})
				expected[text] = name
				texts = append(texts, text)
			} else {
				text := rapid.SampledFrom(texts).Draw(t, "event")
				if o := e.Take(text); o != nil && o.GetName() != expected[text] {
					t.Fatalf("got %s, want %q", o.GetName(), expected[text])
				}
				delete(expected, text)
			}
			if _, err := e.Audit(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestEchoesAreTakenOnce(t *testing.T) {
	var e client.Cache
	page := &page{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}}
	e.Add("text", page)
	if e.Take("text") != nil {
		t.Error("something was kept that nobody watches")
	}
	e.Watch()
	e.Add("text", page)
	page.Name = "changed"
	first, second := e.Take("text"), e.Take("text")
	if first == nil || first.GetName() != "p" || second != nil {
		t.Errorf("taken: %v, %v", first, second)
	}
	e.Advance("7")
	for _, late := range []string{"6", "7"} {
		page.ResourceVersion = late
		if e.Add("late", page); e.Take("late") != nil {
			t.Errorf("the echo of %s had come before", late)
		}
	}
}

// A dry run, or the removal of the last finalizer, has no echo.
func TestEchoesThatWillNotComeAreDroppedOnceTheirVersionHasPassed(t *testing.T) {
	var e client.Cache
	e.Watch()
	for version := range 10 {
		e.Add(fmt.Sprint("page-", version), &page{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(version + 1)}})
	}
	e.Advance("7")
	if bytes, err := e.Audit(); bytes != 3*len("page-0") || err != nil {
		t.Errorf("%d bytes left, %v", bytes, err)
	}
	if e.Take("page-6") != nil || e.Take("page-7") == nil {
		t.Error("the wrong ones are left")
	}
}

func TestEchoesThatDoNotComeMakeRoom(t *testing.T) {
	var e client.Cache
	e.Watch()
	var kept []int
	for i := range 40 {
		e.Add(fmt.Sprint(i, strings.Repeat("x", 100_000)), &page{})
	}
	for i := range 40 {
		if e.Take(fmt.Sprint(i, strings.Repeat("x", 100_000))) != nil {
			kept = append(kept, i)
		}
	}
	if want := []int{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}; !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
	if bytes, err := e.Audit(); bytes != 0 || err != nil {
		t.Errorf("%d bytes left, %v", bytes, err)
	}
}

// Whatever writes and events come in whatever order: an answer is taken for the newest event of its
// object that came during its writes, once, and nothing is kept after them.
func TestEarlyEchoesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e client.Cache
		underWay, newest := map[string]int{}, map[string]string{} // by name
		texts := []string{"never an event"}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				e.Begin(trc.Key{Name: name})
				underWay[name]++
			case 1:
				if underWay[name] == 0 {
					continue
				}
				e.End(trc.Key{Name: name})
				if underWay[name]--; underWay[name] == 0 {
					delete(newest, name)
				}
			case 2:
				text := fmt.Sprint(name, step)
				page := &page{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(step)}}
				e.AddEarly(text+"\n", page)
				page.ResourceVersion = "changed by the cache"
				if underWay[name] > 0 {
					newest[name] = text
				}
				texts = append(texts, text)
			case 3:
				text := rapid.SampledFrom(texts).Draw(t, "answer")
				name := text[:1]
				o := e.TakeEarly(text)
				if want := newest[name] == text; want != (o != nil) || want && name+o.GetResourceVersion() != text {
					t.Fatalf("took %v for %s, while %v are the newest", o, text, newest)
				} else if want {
					delete(newest, name)
				}
			}
			if _, err := e.Audit(); err != nil {
				t.Fatal(err)
			}
		}
		for name, writes := range underWay {
			for range writes {
				e.End(trc.Key{Name: name})
			}
		}
		if bytes, err := e.Audit(); bytes != 0 || err != nil {
			t.Fatalf("%d bytes are left, %v", bytes, err)
		}
	})
}
