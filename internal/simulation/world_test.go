package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	runTimeout = 20 * time.Second
	// restTime is by when all must have come to rest: the longest back-off of retries is 20 s, of
	// watches 30 s, and a watch that nothing was heard on is given up after 3 minutes.
	restTime = 5 * time.Minute
	// renewDeadline is how long after the begin of the last renewal of the lease writes may come.
	renewDeadline = 20 * time.Second
	// stopTime bounds a stop: the grace period, what runs take to heed their cancellation, the release
	// of the lease.
	stopTime = 40 * time.Second
)

// way is how an instance writes what it keeps.
type way int

const (
	byApply way = iota
	byPatch
	byUpdate
	byMergePatch
)

// plan is what kind of world a seed makes.
type plan struct {
	calm    bool // no faults, nobody fails: own writes are counted
	pages   int
	steps   int
	auditor bool
	rivals  bool // two instances elect a leader
	way     way
	applies bool // the status, rather than to patch it
	tidy    bool // Cleanup deletes what was kept
	grace   time.Duration
	live    bool // runs read past the caches, too
	forms   bool // pages are watched as unstructured objects, too, which have a field that their Go type lacks
	// many is how many numbered ConfigMaps a page has besides: 0, or more than a run is told of
	// causes.
	many   int
	atOnce bool // the numbered ConfigMaps are written at the same time, not one after the other
	// restless runs ask for another one at once.
	restless bool
}

func planOf(seed uint64, r *rand.Rand) plan {
	p := plan{
		calm: seed%8 == 0, rivals: seed%12 == 1, pages: 1 + r.IntN(3), steps: 5 + r.IntN(7),
		way: way(r.IntN(4)), applies: r.IntN(3) == 0, tidy: r.IntN(4) != 0, grace: -1,
	}
	p.auditor = !p.calm && r.IntN(3) == 0
	p.tidy = p.tidy || p.calm
	p.live, p.forms = !p.calm && seed%3 == 0, !p.calm && seed%5 < 2
	if r.IntN(3) == 0 {
		p.grace = 5 * time.Second
	}
	// A calm one, and one that is not. Not where another takes over: in bad weather, answers with so
	// many objects may be lost until the RenewDeadline has passed, and then it begins with what its
	// caches show, which is a limit of G01.
	if (seed%64 == 8 || seed%64 == 9) && !p.rivals {
		p.many, p.atOnce = 70+r.IntN(131), r.IntN(2) == 0
	}
	return p
}

// world is one seed's: an API server, instances of an operator, others, and the weather between
// them.
type world struct {
	*testing.T
	seed    uint64
	traced  bool       // requests and runs are told
	rand    *rand.Rand // of the foreign clients and of the order of things; used by one goroutine
	plan    plan
	model   *apimodel.Model
	truth   *truth
	witness *witness
	weather *weather
	pages   dynamic.ResourceInterface
	maps    dynamic.ResourceInterface
	places  []*instance // that run now, nil where none does
	// expected and atMost are how many runs of the keeper each page has, in a calm world.
	expected, atMost map[string]int

	mu    sync.Mutex // guards below
	all   map[string]*instance
	moods map[string]int // counts the runs that were given a mood
}

// instance is one process of the operator.
type instance struct {
	name    string
	op      *framework.Operator
	cancel  context.CancelFunc
	done    chan error
	dead    atomic.Bool // crashed: nothing of it reaches anybody
	stopped atomic.Bool // Run has returned

	mu       sync.Mutex // guards below
	memories map[string]*memory
}

// memoryOf is what a controller has read of its primaries, or the process of secondaries.
func (i *instance) memoryOf(controller string) *memory {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.memories[controller] == nil {
		i.memories[controller] = &memory{floor: map[object]int64{}}
	}
	return i.memories[controller]
}

// kinds are those of the samples. The definition of pages is newer than their Go type: it has a
// color.
var kinds = sync.OnceValues(func() ([]apimodel.Kind, error) {
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	for _, k := range kinds {
		if k.Plural == webPages {
			k.Schema.Properties["spec"].Properties["color"] = *spec.StringProperty()
		}
	}
	return kinds, err
})

var scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, webpagev1.AddToScheme(s)
})

func newWorld(t *testing.T, seed uint64) *world {
	kinds, err := kinds()
	noError(t, err)
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	noError(t, err)
	config := model.Config()
	config.UserAgent = foreigner
	client, err := dynamic.NewForConfig(config)
	noError(t, err)
	h, random := newTruth(model), rand.New(rand.NewPCG(seed, 0))
	w := &world{
		T: t, seed: seed, rand: random, plan: planOf(seed, random), model: model, truth: h, witness: newWitness(h),
		pages:    client.Resource(webpagev1.GroupVersion.WithResource(webPages)).Namespace(namespace),
		maps:     client.Resource(corev1.SchemeGroupVersion.WithResource(configMaps)).Namespace(namespace),
		expected: map[string]int{}, atMost: map[string]int{},
		all: map[string]*instance{}, moods: map[string]int{},
	}
	w.weather = &weather{world: w, moods: map[string]mood{}, counts: map[string]int{}}
	model.Intercept(w.weather.decide)
	return w
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts an instance in a place.
func (w *world) start(place int) {
	s, err := scheme()
	noError(w.T, err)
	in := &instance{done: make(chan error, 1), memories: map[string]*memory{}}
	w.mu.Lock()
	in.name = fmt.Sprintf("%c%d", 'a'+place, len(w.all))
	w.all[in.name] = in
	w.mu.Unlock()
	options := framework.OperatorOptions{
		Scheme: s, Logger: logr.Discard(), Name: in.name, Grace: w.plan.grace, StartPolicy: framework.WaitForAll,
		LeaderElection: framework.LeaderElection{Mode: framework.Never},
		Observers:      []observe.Observer{contests{w}},
	}
	if w.plan.rivals {
		options.LeaderElection = framework.LeaderElection{
			Mode: framework.Always, Namespace: namespace, Name: "pages", Identity: in.name,
			LeaseDuration: 3 * renewDeadline / 2, RenewDeadline: renewDeadline, RetryPeriod: renewDeadline / 4,
		}
	}
	in.op, err = framework.NewOperator(w.model.Config(), options)
	noError(w.T, err)
	k := &keeper{w.observer(in, keeperName)}
	noError(w.T, framework.Register(in.op, k, w.options(k.observer)))
	if w.plan.auditor {
		a := &auditor{w.observer(in, auditorName)}
		noError(w.T, framework.Register(in.op, a, w.options(a.observer)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.cancel = cancel
	go func() { in.done <- in.op.Run(ctx) }()
	w.places[place] = in
}

func (w *world) observer(in *instance, name string) *observer {
	return &observer{
		world: w, instance: in, name: name, maps: framework.Secondary[*corev1.ConfigMap]{Map: primariesOf},
		whole: framework.Secondary[*unstructured.Unstructured]{
			Name: "whole pages", GroupVersionKind: webpagev1.GroupVersion.WithKind("WebPage"),
			Map: func(p *unstructured.Unstructured) []types.NamespacedName { return []types.NamespacedName{trc.KeyOf(p)} },
		},
	}
}

// options of a controller: nothing but what happens makes a run, so that nothing that was lost is
// found by chance.
func (w *world) options(o *observer) pageOptions {
	options := pageOptions{
		Name: o.name, Secondaries: framework.Secondaries(&o.maps), MaxInterval: scheduler.NoMaxInterval, RunTimeout: runTimeout,
		Retry:       retry.Policy{Initial: time.Second, Max: 20 * time.Second, Jitter: retry.NoJitter},
		KeepRecords: 50, KeepRecordsPerPrimary: 3,
	}
	if w.plan.forms {
		options.Secondaries = framework.Secondaries(&o.maps, &o.whole)
	}
	if w.plan.applies {
		options.PrimaryWrites = framework.ByApply
	}
	return options
}

// stop ends the instance of a place, after which nothing of it may come (G19).
func (w *world) stop(place int) {
	in := w.places[place]
	w.places[place] = nil
	if in == nil {
		return
	}
	began := time.Now()
	in.cancel()
	err := <-in.done
	in.stopped.Store(true)
	if err != nil && !in.dead.Load() {
		w.witness.fault("the stop of %s: %v", in.name, err)
	}
	if took := time.Since(began); took > stopTime+w.plan.grace {
		w.witness.fault("G19: the stop of %s took %v", in.name, took)
	}
}

// crash ends the instance of a place without a word to anybody.
func (w *world) crash(place int) {
	if in := w.places[place]; in != nil {
		in.dead.Store(true)
		w.stop(place)
	}
}

// moodOf is what the author's code is up to in a run.
func (w *world) moodOf(v *visit) uint64 {
	if w.plan.restless {
		return restlessMood
	}
	if w.plan.calm || w.weather.isOver() {
		return goodMood
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := v.controller + v.page
	w.moods[key]++
	return draw(w.seed, key, w.moods[key])
}

// goodMood is one in which nothing happens, restlessMood one of runs that ask for another; see
// run.misbehave, run.again and keeper.Cleanup.
const goodMood, restlessMood = 12, 4 * 31

// upTo is a random time.
func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(1 + w.rand.Int64N(int64(d)))
}

// pass lets time pass, and all come to rest.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
