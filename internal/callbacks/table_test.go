package callbacks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// row is one callback.
type row struct {
	// because says why there is nothing to be tried; all else is empty then.
	because string
	// install has the world call it.
	install func(w *world)
	// names is how the operator calls the culprit.
	names string
	// inRun says that it is called within runs, which it fails or, after their deadline, holds up.
	inRun bool
	// registers says that it is called at registration, which fails.
	registers bool
	// stops are the deeds after which controller a does not work, by what is promised of it: what one
	// knows of the world is not complete then.
	stops []deed
	// deletes says that it is about deletions.
	deletes bool
}

var every = []deed{panics, exits, hangs}

// Reasons why there is nothing to be tried.
const (
	ofRun     = "it is called by runs alone, in the goroutine of a node's function or of Reconcile: see the rows of these, and TestNoGoroutines"
	notCalled = "it is made by this library, and called as what it is given to"
	byOthers  = "the framework gives it functions of its own; for others, see the tests of its package"
)

func inRun(install func(w *world)) row { return row{install: install, names: `bad`, inRun: true} }

func values(options func(w *world) eventsource.ValuesOptions[string]) func(w *world) {
	return func(w *world) {
		in, err := eventsource.NewInbound(eventsource.InboundOptions[string]{Name: "inbound", Values: options(w)})
		w.must(err)
		w.options.Sources = []eventsource.Source{in}
		var once sync.Map
		w.a.also = func(_ context.Context, p primary, _ runContext) error {
			if _, again := once.LoadOrStore(p.Name, true); again {
				return nil // a change that counts brings a run
			}
			pushed := make(chan struct{})
			go func() { // an external system that has its own goroutines
				defer close(pushed)
				in.Push(trc.Key{Namespace: p.Namespace, Name: p.Name}, "first "+p.Name)
				in.Push(trc.Key{Namespace: p.Namespace, Name: p.Name}, "second "+p.Name)
			}()
			<-pushed
			return nil
		}
	}
}

func condition(w *world) workflow.Condition[runContext] {
	return func(_ context.Context, c runContext) (workflow.Verdict, error) {
		w.may(about(c))
		return workflow.Met(), nil
	}
}

func custom(change func(w *world, s *source)) func(w *world) {
	return func(w *world) {
		s := &source{}
		change(w, s)
		w.options.Sources = []eventsource.Source{s}
	}
}

// table has a row for each callback.
var table = map[string]row{
	"framework.ControllerOptions.Filter": {names: "Filter", install: func(w *world) {
		w.options.Filter = func(_, p primary) bool { w.may(nameOf(p)); return true }
	}},
	"framework.ControllerOptions.AddFilter": {names: "AddFilter", install: func(w *world) {
		w.options.AddFilter = func(p primary) bool { w.may(nameOf(p)); return true }
	}},
	"framework.ControllerOptions.Paused": {names: "Paused", install: func(w *world) {
		w.options.Paused = func(p primary) bool { w.may(nameOf(p)); return false }
	}},
	"framework.ControllerOptions.UpdateFilter": {names: "UpdateFilter", install: func(w *world) {
		w.options.UpdateFilter = func(_, p primary) bool { w.may(nameOf(p)); return true }
	}},
	"framework.ControllerOptions.GenerationFilter": {names: "GenerationFilter", install: func(w *world) {
		w.options.AllGenerations = false
		w.options.GenerationFilter = func(_, p primary) bool { w.may(nameOf(p)); return true }
	}},
	"framework.ControllerOptions.DeleteFilter": {names: "DeleteFilter", deletes: true, install: func(w *world) {
		w.options.AllEvents = true
		w.options.DeleteFilter = func(p primary) bool { w.may(nameOf(p)); return true }
	}},
	"framework.Secondary.Filter": {names: "Filter", install: func(w *world) {
		w.secondary.Filter = func(_, s secondary) bool { w.may(nameOf(s)); return true }
	}},
	"framework.Secondary.AddFilter": {names: "Filter", install: func(w *world) {
		w.secondary.AddFilter = func(s secondary) bool { w.may(nameOf(s)); return true }
	}},
	"framework.Secondary.UpdateFilter": {names: "Filter", install: func(w *world) {
		w.secondary.UpdateFilter = func(_, s secondary) bool { w.may(nameOf(s)); return true }
	}},
	"framework.Secondary.DeleteFilter": {names: "Filter", deletes: true, install: func(w *world) {
		w.secondary.DeleteFilter = func(s secondary) bool { w.may(nameOf(s)); return true }
	}},
	"framework.Secondary.Map": {names: "Map", stops: []deed{hangs}, install: func(w *world) {
		w.secondary.By = nil
		w.secondary.Map = func(s secondary) []trc.Key {
			w.may(s.Name)
			return []trc.Key{{Namespace: s.Namespace, Name: s.Name}}
		}
	}},
	"framework.Referred(refers)": {names: "Referred", stops: []deed{hangs}, install: func(w *world) {
		w.refers = func(p primary) []trc.Key {
			w.may(p.Name)
			return []trc.Key{{Namespace: p.Namespace, Name: p.Name}}
		}
	}},
	"framework.MatchedBy(matches)": {because: notCalled + ": Secondary.Map"},
	"framework.Index.Values": {names: "Index", install: func(w *world) {
		w.secondary.Indexes = []*framework.Index[secondary]{{Name: "i", Values: func(s secondary) []string { w.may(s.Name); return nil }}}
		w.options.Indexes = []*framework.Index[primary]{{Name: "i", Values: func(p primary) []string { w.may(p.Name); return nil }}}
	}},
	"framework.Transform.Prune": {names: "Transform", install: func(w *world) {
		w.secondary.Transform = &framework.Transform[secondary]{Name: "less", Prune: func(s secondary) { w.may(s.Name) }}
	}},
	"retry.Policy.Classify": {names: "Classify", install: func(w *world) {
		w.a.fails = func(p primary) error {
			if w.seen(w.seenA, p.Name) == "1" {
				return errors.New("about " + p.Name)
			}
			return nil
		}
		w.options.Retry.Classify = func(err error) retry.Verdict { w.may(err.Error()); return retry.Verdict{} }
	}},

	"framework.Reconciler.Reconcile": inRun(func(w *world) {
		w.a.also = func(_ context.Context, p primary, _ runContext) error { w.may(p.Name); return nil }
	}),
	"framework.Cleaner.Cleanup": {names: "bad", inRun: true, deletes: true, install: func(w *world) {
		w.aHandles = &withCleanup{w.a, func(p primary) { w.may(p.Name) }}
	}},
	"framework.ErrorStatusHandler.ErrorStatus": inRun(func(w *world) {
		w.a.fails = func(p primary) error {
			if p.Name == "bad" {
				return errors.New("it is bad")
			}
			return nil
		}
		w.aHandles = &withErrorStatus{w.a, func(p primary) { w.may(p.Name) }}
	}),
	"framework.Do(request)": inRun(func(w *world) {
		w.a.also = func(ctx context.Context, p primary, c runContext) error {
			_, err := framework.Do(ctx, c, p, func(context.Context) (primary, error) { w.may(p.Name); return nil, nil })
			return err
		}
	}),
	"framework.Context.RunValue(create)": inRun(func(w *world) {
		w.a.also = func(_ context.Context, p primary, c runContext) error {
			c.RunValue("key", func() any { w.may(p.Name); return nil })
			return nil
		}
	}),
	"framework.Context.TermValue(create)": inRun(func(w *world) {
		w.a.also = func(_ context.Context, p primary, c runContext) error {
			c.TermValue(p.Name, func() any { w.may(p.Name); return nil })
			return nil
		}
	}),

	"workflow.Node.Reconcile": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) {
			n.Reconcile = func(_ context.Context, c runContext) error { w.may(about(c)); return nil }
		})
	}),
	"workflow.Node.ActivationCondition": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) { n.ActivationCondition = condition(w) })
	}),
	"workflow.Node.ReconcilePrecondition": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) { n.ReconcilePrecondition = condition(w) })
	}),
	"workflow.Node.ReadyPostcondition": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) { n.ReadyPostcondition = condition(w) })
	}),
	"workflow.Node.Activate": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) { n.Activate = condition(w) })
	}),
	"workflow.Node.Deactivate": inRun(func(w *world) {
		w.node(func(n *workflow.Node[runContext]) {
			n.ActivationCondition = func(context.Context, runContext) (workflow.Verdict, error) { return workflow.NotMet("never"), nil }
			n.Deactivate = func(_ context.Context, c runContext) error { w.may(about(c)); return nil }
		})
	}),
	"workflow.Node.Delete": {names: "bad", inRun: true, deletes: true, install: func(w *world) {
		w.node(func(n *workflow.Node[runContext]) {
			n.Delete = func(_ context.Context, c runContext) error { w.may(about(c)); return nil }
		})
	}},
	"workflow.Node.DeletePostcondition": {names: "bad", inRun: true, deletes: true, install: func(w *world) {
		w.node(func(n *workflow.Node[runContext]) {
			n.Delete = func(context.Context, runContext) error { return nil }
			n.DeletePostcondition = condition(w)
		})
	}},
	"workflow.Node.Gone":                  {because: "it is called as DeletePostcondition is"},
	"framework.OperatorOptions.Configure": {names: "Configure", registers: true, install: func(w *world) { w.configures = true }},
	"framework.Node.Check": {names: "Check", registers: true, install: func(w *world) {
		n := framework.Node[primary]{Check: func([]framework.Node[primary]) error { w.may("bad"); return nil }}
		n.Name, n.Reconcile = "node", func(context.Context, runContext) error { return nil }
		w.options.Workflow.Dependents = []framework.Dependent[primary]{n}
	}},
	"framework.Dependent.Describe": {names: "Describe", registers: true, install: func(w *world) {
		w.options.Workflow.Dependents = []framework.Dependent[primary]{describing{w}}
	}},

	"eventsource.Relation.MapperFor": {names: "MapperFor", registers: true, install: func(w *world) {
		w.secondary.By = relating{w}
	}},
	"eventsource.Source.Name": {names: "Name", registers: true, install: custom(func(w *world, s *source) {
		s.name = func() { w.may("bad") }
	})},
	"eventsource.Source.Start": {names: "custom", stops: every, install: custom(func(w *world, s *source) {
		s.start = func(eventsource.Sink) { w.may("bad") }
	})},
	"eventsource.Source.Synced": {names: "custom", stops: every, install: custom(func(w *world, s *source) {
		s.synced = func() { w.may("bad") }
	})},
	"eventsource.Source.Err": {names: "Err", install: custom(func(w *world, s *source) {
		s.err = func() { w.may("bad") }
	})},
	"eventsource.HealthReporter.Health": {names: "Health", install: custom(func(w *world, s *source) {
		s.health = func() { w.may("bad") }
	})},
	"eventsource.PrimaryWatcher.PrimaryChanged": {names: "PrimaryChanged", install: custom(func(w *world, s *source) {
		s.changed = func() { w.may("bad") }
	})},
	"eventsource.PollingOptions.Fetch": {names: "poll", stops: every, install: func(w *world) {
		p, err := eventsource.NewPolling(eventsource.PollingOptions[string]{
			Name: "poll", Period: time.Second, Timeout: time.Second,
			Fetch: func(context.Context) (map[trc.Key][]string, error) { w.may("bad"); return nil, nil },
		})
		w.must(err)
		w.options.Sources = []eventsource.Source{p}
	}},
	"eventsource.PollingEachOptions.Fetch": {names: "poll", install: func(w *world) {
		p, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[primary, string]{
			Name: "poll", Period: time.Second, Timeout: time.Second,
			Fetch: func(_ context.Context, p primary) (eventsource.Fetched[string], error) {
				w.may(p.Name)
				return eventsource.Fetched[string]{}, nil
			},
		})
		w.must(err)
		w.options.Sources = []eventsource.Source{p}
	}},
	"eventsource.PollingEachOptions.Select": {names: "PrimaryChanged", install: func(w *world) {
		p, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[primary, string]{
			Name: "poll", Period: time.Second, Select: func(p primary) bool { w.may(p.Name); return true },
			Fetch: func(context.Context, primary) (eventsource.Fetched[string], error) {
				return eventsource.Fetched[string]{}, nil
			},
		})
		w.must(err)
		w.options.Sources = []eventsource.Source{p}
	}},
	"eventsource.InboundOptions.Fetch": inRun(func(w *world) {
		in, err := eventsource.NewInbound(eventsource.InboundOptions[string]{
			Name: "inbound", Fetch: func(_ context.Context, key trc.Key) ([]string, error) { w.may(key.Name); return nil, nil },
		})
		w.must(err)
		w.options.Sources = []eventsource.Source{in}
		w.a.also = func(ctx context.Context, p primary, _ runContext) error {
			_, err := in.Fetch(ctx, trc.Key{Namespace: p.Namespace, Name: p.Name})
			return err
		}
	}),
	"eventsource.ValuesOptions.Equal": {names: "Equal", install: values(func(w *world) eventsource.ValuesOptions[string] {
		return eventsource.ValuesOptions[string]{Equal: func(a, b string) bool { w.may(a + b); return true }}
	})},
	"eventsource.ValuesOptions.Filter": {names: "Filter", install: values(func(w *world) eventsource.ValuesOptions[string] {
		return eventsource.ValuesOptions[string]{Filter: func(_, v *string) bool { w.may(*v); return false }}
	})},
	"eventsource.ValuesOptions.Older": {names: "Older", install: values(func(w *world) eventsource.ValuesOptions[string] {
		return eventsource.ValuesOptions[string]{Older: func(a, b string) bool { w.may(a + b); return false }}
	})},
	"eventsource.ValuesOptions.ID": {because: "it is called in the goroutine of who pushes or writes, and within Fetch: see its row"},
	"eventsource.NewTicks(next)": {names: "ticks", install: func(w *world) {
		ticks, err := eventsource.NewTicks("ticks", func(p primary, after time.Time) time.Time { w.may(p.Name); return after.Add(time.Hour) })
		w.must(err)
		w.options.Sources = []eventsource.Source{ticks}
	}},
	"eventsource.NewChanges(due)": {names: "PrimaryChanged", install: func(w *world) {
		changes, err := eventsource.NewChanges("changes", func(_, p primary) bool { w.may(p.Name); return false })
		w.must(err)
		w.options.Sources = []eventsource.Source{changes}
	}},
	"eventsource.Changes.WhenLeft(left)": {names: "PrimaryChanged", deletes: true, install: func(w *world) {
		changes, err := eventsource.NewChanges("changes", func(_, _ primary) bool { return false })
		w.must(err)
		changes.WhenLeft(func(p primary) { w.may(p.Name) })
		w.options.Sources = []eventsource.Source{changes}
	}},
	"eventsource.Expectations.Expect(fulfilled)": inRun(func(w *world) {
		e, err := eventsource.NewExpectations[runContext]("expectations")
		w.must(err)
		w.options.Sources = []eventsource.Source{e}
		w.a.also = func(_ context.Context, p primary, c runContext) error {
			key := trc.Key{Namespace: p.Namespace, Name: p.Name}
			e.Check(key, c)
			return e.Expect(key, "x", time.Hour, func(c runContext) bool { w.may(about(c)); return true })
		}
	}),

	"eventsource.InformerOptions.Check":   {because: byOthers},
	"eventsource.InformerOptions.Filter":  {because: byOthers},
	"eventsource.InformerOptions.Indexes": {because: byOthers},
	"eventsource.InformerOptions.Map":     {because: byOthers},
	"eventsource.InformerOptions.Missed":  {because: byOthers},
	"eventsource.Sink.Offer":              {because: "sources are given it; authors do not implement it"},
	"eventsource.Filter.And(others)":      {because: notCalled},
	"eventsource.Filter.Or(others)":       {because: notCalled},
	"eventsource.Where.And(others)":       {because: notCalled},
	"eventsource.Where.Or(others)":        {because: notCalled},

	"scheduler.New(run)":          {because: byOthers},
	"scheduler.Options.Decide":    {because: byOthers},
	"scheduler.Options.Record":    {because: byOthers},
	"scheduler.Result.Decided":    {because: byOthers},
	"trc.ListerWatcher.List":      {because: byOthers},
	"trc.ListerWatcher.Watch":     {because: byOthers},
	"trc.Options.OnIncomparable":  {because: byOthers},
	"trc.Options.OnRewound":       {because: byOthers},
	"trc.Options.OnUndecodable":   {because: byOthers},
	"trc.Options.Transform":       {because: byOthers},
	"trc.Options.Visible":         {because: byOthers},
	"trc.Prune(transform)":        {because: byOthers},
	"trc.Store.AddIndex(values)":  {because: byOthers},
	"trc.Store.After(f)":          {because: byOthers},
	"trc.Store.AfterTo(f)":        {because: byOthers},
	"trc.Store.Later(f)":          {because: byOthers},
	"trc.Store.Subscribe(handle)": {because: byOthers},
	"trc.Store.Whole(fetch)":      {because: byOthers},
	"trc.Subscriber.Handle":       {because: byOthers},
	"trc.Subscriber.Missed":       {because: byOthers},
	"trc.Subscription.Later(f)":   {because: byOthers},

	"config.Load(sources)":            {because: "it is called before there is an operator, by who loads"},
	"ready.Every(ready)":              {because: ofRun},
	"external.OneInStatus(get)":       {because: ofRun},
	"external.OneInStatus(set)":       {because: ofRun},
	"dependent.Pure(desired)":         {because: ofRun},
	"workflow.Result.Summary(stalls)": {because: "it is called in the goroutine of who asks for the summary"},

	"dependent.Pods.Version":                   {because: ofRun},
	"framework.Logger.V":                       {because: "it is called in the goroutine of who makes the operator"},
	"framework.Secondary.Select(matches)":      {because: ofRun},
	"interlock.Implementation.LetGo":           {because: ofRun},
	"interlock.Implementation.StandBehindGate": {because: "it is called at registration, within Check"},
	"interlock.Implementation.TellsReady":      {because: "it is called at registration, within Check"},
	"workflow.IsServed(condition)":             {because: notCalled},
	"workflow.Served(condition)":               {because: notCalled},
	"interlock.Relation.MayUse":                {because: ofRun},
	"interlock.Relation.Providers":             {because: notCalled + ": by runs, and as Referred"},
	"interlock.Relation.Select":                {because: notCalled + ": by runs, and as Referred"},
}

// Of whole types, all of which are called so.
var tableOfTypes = map[string]string{
	"dependent.Bulk.":       ofRun,
	"external.Value.":       ofRun,
	"external.Values.":      ofRun,
	"external.InStatus.":    ofRun,
	"dependent.Kubernetes.": ofRun,
	"dependent.Reading.":    "it is called at registration, within Describe",
	"external.Source.":      ofRun,
	"external.State.":       ofRun,
}

// writeOptions are functions that only this library can make.
var writeOptions = []string{"(options)"}

type describing struct{ w *world }

func (d describing) Describe() (framework.Node[primary], error) {
	d.w.may("bad")
	return framework.Node[primary]{}, errors.New("nothing")
}

type relating struct{ w *world }

func (r relating) MapperFor(schema.GroupKind, bool) (eventsource.Mapper, error) {
	r.w.may("bad")
	return eventsource.Names{}.MapperFor(schema.GroupKind{}, false)
}

// nameOf is the name of an object that may be nil.
func nameOf[T interface{ GetName() string }](o T) string {
	defer func() { _ = recover() }()
	return o.GetName()
}

func TestEveryCallbackHasARow(t *testing.T) {
	all := callbacksOf(t)
	if len(all) < 100 {
		t.Fatalf("only %d callbacks are found", len(all))
	}
	for _, callback := range all {
		_, has := table[callback]
		for prefix := range tableOfTypes {
			has = has || strings.HasPrefix(callback, prefix)
		}
		for _, suffix := range writeOptions {
			has = has || strings.HasSuffix(callback, suffix)
		}
		if !has {
			t.Errorf("%s has no row: say what becomes of the others when it panics, ends its goroutine or hangs", callback)
		}
	}
	for callback := range table {
		if !slices.Contains(all, callback) {
			t.Errorf("%s is not there any more", callback)
		}
	}
}

func TestG15_G19_NoCallbackTakesMoreDownThanWhatItIsAbout(t *testing.T) {
	for callback, row := range table {
		if row.install == nil {
			if row.because == "" {
				t.Errorf("%s: neither is it tried, nor is it said why", callback)
			}
			continue
		}
		for _, deed := range every {
			t.Run(callback+" "+string(deed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { try(newWorld(t, deed), row) })
			})
		}
	}
}

func try(w *world, r row) {
	r.install(w)
	err := w.register()
	if r.registers {
		if err == nil || !strings.Contains(err.Error(), r.names) {
			w.Errorf("registered, or not named: %v", err)
		}
		close(w.goOn)
		return
	}
	w.must(err)
	w.armed.Store(!r.deletes)
	w.start()
	w.create("bad")
	w.create("good")
	w.pass(15 * time.Second)
	w.change("bad", "2")
	if r.deletes {
		w.armed.Store(true)
		w.delete("bad")
		w.must(w.client.CoreV1().Secrets("default").Delete(w.Context(), "bad", metav1.DeleteOptions{}))
	}
	w.op.Health()
	_ = w.op.Ready()
	w.pass(15 * time.Second)
	w.change("good", "2")
	w.pass(time.Minute)
	if w.done.Load() == 0 {
		w.Error("it was not called")
	}
	if got := w.seen(w.seenB, "good"); got != "2" {
		w.Errorf("controller b has seen %q", got)
	}
	stops := slices.Contains(r.stops, w.deed)
	if got := w.seen(w.seenA, "good"); got != "2" && !stops {
		w.Errorf("controller a has seen %q of another primary", got)
	}
	if r.inRun {
		w.pass(time.Minute) // after the deadline
	}
	if said := w.said(); !strings.Contains(said, r.names) {
		w.Errorf("%s is not named:\n%s", r.names, said)
	}
	if w.deed == hangs && w.op.Ready() == nil && w.op.Alive() == nil {
		w.Error("neither Ready nor Alive tell")
	}
	if w.deed == hangs && !r.inRun && !r.deletes {
		w.recovers(r)
	}
	began := time.Now()
	ended := w.stop()
	if took := time.Since(began); took > time.Minute {
		w.Errorf("the stop took %v", took)
	}
	if ended != nil && !(r.inRun && w.deed == hangs) {
		w.Error(ended)
	}
	w.armed.Store(false)
	select {
	case <-w.goOn:
	default:
		close(w.goOn)
	}
}

// recovers lets what hangs return: nothing is missed.
func (w *world) recovers(r row) {
	w.armed.Store(false)
	close(w.goOn)
	w.pass(2 * time.Minute)
	for _, name := range []string{"good", "bad"} {
		if got := w.seen(w.seenA, name); got != "2" && !strings.HasPrefix(r.names, "Transform") {
			w.Errorf("once it has returned, controller a has seen %q of %s", got, name)
		}
	}
	if err := errors.Join(w.op.Ready(), w.op.Alive()); err != nil {
		w.Errorf("once it has returned: %v", err)
	}
}
