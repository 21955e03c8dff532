package simulation

import (
	"slices"
	"time"
)

// live is a world from its first day to its last.
func (w *world) live() {
	w.startAll()
	if w.plan.calm {
		w.calmDays()
	} else {
		w.wildDays()
	}
	w.calmDown()
	w.pass(restTime)
	w.judge()
	w.endOfPages()
	w.judgeNothingLeft()
	w.stopAll()
	ended := len(w.model.History())
	w.pass(time.Minute)
	if n := len(w.model.History()); n != ended {
		w.witness.fault("G19: %d commits after all has stopped", n-ended)
	}
	w.judgeHistory()
}

func (w *world) startAll() {
	w.places = make([]*instance, w.instances())
	for place := range w.places {
		w.start(place)
	}
}

func (w *world) stopAll() {
	for place := range w.places {
		w.stop(place)
	}
}

func (w *world) instances() int {
	if w.plan.rivals {
		return 2
	}
	return 1
}

// somePage is the name of one that may be there or not.
func (w *world) somePage() string { return pageName(w.rand.IntN(w.plan.pages)) }

// calmDays: others do one thing after the other, and the runs that follow are counted. Watches may
// lag all the same.
func (w *world) calmDays() {
	w.pass(time.Minute)
	if w.rand.IntN(2) == 0 {
		w.model.Lag(webPages, w.upTo(time.Minute))
		w.model.Lag(configMaps, w.upTo(time.Minute))
	}
	all := w.acts()
	for step := range w.plan.steps {
		page, one := w.somePage(), all[w.rand.IntN(len(all))]
		if w.plan.many > 0 && step < len(firstOfMany) { // few would be written otherwise
			page, one = pageName(0), firstOfMany[step]
		}
		one.do(w, page)
		w.pass(150 * time.Second) // longer than the watches lag, twice
		for i := range w.plan.pages {
			name := pageName(i)
			if n := w.runsOf(name); n < w.expected[name] || n > w.atMost[name] {
				w.witness.fault("G05: after %q with %s: %d runs of %s, want %d to %d: %v %s", one.name, page, n, name,
					w.expected[name], w.atMost[name], w.recordsOf(name), w.truth.tell(40))
				return
			}
			w.expected[name] = w.runsOf(name)
			w.atMost[name] = w.expected[name]
		}
	}
}

// acts are what others do in this world.
func (w *world) acts() []act {
	if w.plan.many == 0 {
		return slices.Clone(acts)
	}
	return slices.Concat(acts, toMany)
}

func (w *world) runsOf(page string) (n int) {
	visits, _ := w.witness.seen()
	for _, v := range visits {
		if v.page == page {
			n++
		}
	}
	return n
}

func (w *world) recordsOf(page string) (lines []string) {
	for _, r := range w.places[0].op.Records(keeperName) {
		if r.Key == namespace+"/"+page {
			lines = append(lines, "\n    "+r.Started.Format("15:04:05.000 ")+r.String())
		}
	}
	return lines[max(0, len(lines)-4):]
}

// wildDays: everything at any time.
func (w *world) wildDays() {
	all := append(w.acts(), unforeseen...)
	for i := range w.plan.pages {
		w.createPage(pageName(i))
		time.Sleep(w.upTo(10 * time.Second))
	}
	w.changeShared("")
	for range w.plan.steps {
		for _, in := range w.places {
			if in != nil && w.rand.IntN(3) == 0 {
				w.weather.change(in.name)
			}
		}
		if w.rand.IntN(2) == 0 {
			w.disturb([]string{webPages, configMaps}[w.rand.IntN(2)])
		}
		if w.rand.IntN(8) == 0 {
			w.restart(w.rand.IntN(len(w.places)))
		}
		for range w.rand.IntN(5) {
			all[w.rand.IntN(len(all))].do(w, w.somePage())
			time.Sleep(w.upTo([]time.Duration{time.Nanosecond, 50 * time.Millisecond, 5 * time.Second}[w.rand.IntN(3)]))
		}
		time.Sleep(w.upTo(20 * time.Second))
	}
}

func (w *world) restart(place int) {
	if w.rand.IntN(2) == 0 {
		w.crash(place)
	} else {
		w.stop(place)
	}
	if w.rand.IntN(2) == 0 {
		time.Sleep(w.upTo(20 * time.Second))
	}
	w.start(place)
}

// endOfPages: all pages go.
func (w *world) endOfPages() {
	for i := range w.plan.pages {
		name := pageName(i)
		w.delete(w.pages, name)
		if w.truth.now(object{webPages, name}).object != nil {
			w.patchForeignFinalizer(name, false)
		}
	}
	w.pass(3 * time.Minute)
}
