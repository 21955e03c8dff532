package eventsource

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/trc"
)

// thing is a value of an external system, which counts its changes.
type thing struct {
	ID      string
	Version int
}

// outside is an external system, with a source's cache of it and the state of a run.
type outside struct {
	*Values[thing]
	version int
	things  map[trc.Key]map[string]thing
	// wrote is the version of the last own write that was answered; seen is what the last run that was
	// due, or the own write since, has seen.
	wrote, seen map[trc.Key]map[string]int
	newest      map[string]int // that was read
	fetches     []*aFetch
}

type aFetch struct {
	fetch[thing]
	primary trc.Key // none: all
	brought map[trc.Key][]thing
	asked   bool
}

type aWrite struct {
	primary trc.Key
	id      string
	version int
	gone    bool
}

var outsiders = []trc.Key{{Name: "a"}, {Name: "b"}}

func newOutside() *outside {
	o := &outside{
		Values: newValues(ValuesOptions[thing]{ID: func(t thing) string { return t.ID }}),
		things: map[trc.Key]map[string]thing{}, wrote: map[trc.Key]map[string]int{}, seen: map[trc.Key]map[string]int{},
		newest: map[string]int{},
	}
	for _, key := range outsiders {
		o.things[key], o.wrote[key], o.seen[key] = map[string]thing{}, map[string]int{}, map[string]int{}
	}
	return o
}

// Offer is a run that looks at the value that it is due for.
func (o *outside) Offer(primary trc.Key, offer Offer) {
	id := offer.Cause.String()
	id = id[len(id)-1:]
	value, _ := o.Get(primary, id)
	o.seen[primary][id] = value.Version
}

func (o *outside) change(t *rapid.T) aWrite {
	o.version++
	w := aWrite{
		primary: rapid.SampledFrom(outsiders).Draw(t, "primary"), id: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "id"),
		version: o.version, gone: rapid.IntRange(0, 3).Draw(t, "gone") == 0,
	}
	if w.gone {
		delete(o.things[w.primary], w.id)
	} else {
		o.things[w.primary][w.id] = thing{w.id, w.version}
	}
	return w
}

// answered brings the answer to an own write.
func (o *outside) answered(w aWrite) {
	if w.gone {
		o.Removed(w.primary, w.id)
		o.seen[w.primary][w.id] = 0
	} else {
		o.Wrote(w.primary, thing{w.id, w.version})
		o.seen[w.primary][w.id] = w.version
	}
	o.wrote[w.primary][w.id] = w.version
}

func (f *aFetch) ask(o *outside) {
	f.asked, f.brought = true, map[trc.Key][]thing{}
	for key, things := range o.things {
		if len(things) > 0 {
			f.brought[key] = slices.Collect(maps.Values(things))
		}
	}
}

func (f *aFetch) finish(o *outside, err error) {
	brought := map[trc.Key]map[string]thing{}
	for key, things := range f.brought {
		brought[key] = o.byID(things)
	}
	if f.of == nil {
		o.offer(o, "outside", false, o.endAll(f.fetch, brought, err))
	} else {
		o.offer(o, "outside", false, o.end(f.fetch, f.primary, brought[f.primary], err))
	}
}

// In any order of events: a written value is read until there is a newer one, nothing older is read
// after it, every other change of what is read makes the primary due, and after a fetch without
// overlapping writes the cache equals the system.
func TestValuesModel_C104(t *testing.T) {
	for range 20 {
		rapid.Check(t, valuesHistory)
	}
}

func valuesHistory(t *rapid.T) {
	o := newOutside()
	t.Repeat(map[string]func(*rapid.T){
		"foreign": func(t *rapid.T) { o.change(t) },
		"push": func(t *rapid.T) { // at once
			w := o.change(t)
			var value *thing
			if !w.gone {
				value = &thing{w.id, w.version}
			}
			o.offer(o, "outside", false, []change[thing]{o.put(w.primary, w.id, value)})
		},
		"own":    func(t *rapid.T) { o.answered(o.change(t)) },
		"begin":  func(t *rapid.T) { o.begins(t) },
		"ask":    func(t *rapid.T) { o.some(t, false) },
		"finish": func(t *rapid.T) { o.some(t, true) },
		"":       o.check,
	})
	for _, f := range o.fetches {
		f.finish(o, fmt.Errorf("too late"))
	}
	last := &aFetch{fetch: o.beginAll()}
	last.ask(o)
	last.finish(o, nil)
	o.check(t)
	for _, key := range outsiders {
		want := []thing{}
		for _, id := range slices.Sorted(maps.Keys(o.things[key])) {
			want = append(want, o.things[key][id])
		}
		if got := o.Of(key); !slices.Equal(got, want) {
			t.Fatalf("%v has %v, want %v", key, got, want)
		}
	}
	for _, key := range outsiders {
		o.forget(key)
	}
	if len(o.primaries) != 0 || o.ofAll != 0 {
		t.Fatalf("left: %v, %d", o.primaries, o.ofAll)
	}
}

func (o *outside) begins(t *rapid.T) {
	if rapid.Bool().Draw(t, "all") {
		o.fetches = append(o.fetches, &aFetch{fetch: o.beginAll()})
		return
	}
	key := rapid.SampledFrom(outsiders).Draw(t, "primary")
	o.fetches = append(o.fetches, &aFetch{fetch: o.begin(key), primary: key})
}

// some fetch that is under way is answered by the external system, or its answer arrives.
func (o *outside) some(t *rapid.T, finish bool) {
	if len(o.fetches) == 0 {
		return
	}
	i := rapid.IntRange(0, len(o.fetches)-1).Draw(t, "fetch")
	f := o.fetches[i]
	if !f.asked {
		f.ask(o)
	}
	if finish {
		o.fetches = slices.Delete(o.fetches, i, i+1)
		var err error
		if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
			err = fmt.Errorf("failed")
		}
		f.finish(o, err)
	}
}

func (o *outside) check(t *rapid.T) {
	for _, key := range outsiders {
		for _, id := range []string{"x", "y"} {
			value, there := o.Get(key, id)
			if there && value.Version < o.wrote[key][id] {
				t.Fatalf("%v/%s has %v, and version %d was written", key, id, value, o.wrote[key][id])
			}
			name := key.Name + id
			if there && value.Version < o.newest[name] {
				t.Fatalf("%s has %v, and version %d was read", name, value, o.newest[name])
			}
			o.newest[name] = max(o.newest[name], value.Version)
			if value.Version != o.seen[key][id] {
				t.Fatalf("%v/%s has %v, and the last run saw version %d", key, id, value, o.seen[key][id])
			}
		}
	}
	if len(o.fetches) > 0 {
		return
	}
	for key, h := range o.primaries {
		if len(h.newer)+h.fetches > 0 {
			t.Fatalf("kept of %v without a fetch: %v", key, h)
		}
	}
}
