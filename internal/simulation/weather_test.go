package simulation

import (
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// weather is what happens to the requests of the operator's instances. What happens to one depends
// on the seed, on what it is, and on how many of the kind came before it, but not on others.
type weather struct {
	world *world

	mu     sync.Mutex // guards below
	over   bool
	moods  map[string]mood // by instance
	counts map[string]int
}

// mood is the weather that one instance has.
type mood struct {
	kind  int
	share uint64 // one in so many requests is hit
}

// change lets one instance have other weather.
func (w *weather) change(instance string) {
	r := w.world.rand
	next := mood{r.IntN(len(faults) + 2), 1 + r.Uint64N(5)} // two kinds are fair
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moods[instance] = next
}

func (w *weather) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

func (w *weather) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

// decide is asked about every request.
func (w *weather) decide(r apimodel.Request) apimodel.Fault {
	name := instanceOf(r.UserAgent)
	if name == foreigner {
		return apimodel.Fault{}
	}
	w.world.mu.Lock()
	in := w.world.all[name]
	w.world.mu.Unlock()
	switch {
	case in == nil:
		w.world.witness.fault("a request by nobody: %+v", r)
		return apimodel.Fault{}
	case in.stopped.Load() && !slices.Contains([]string{"get", "list", "watch", "discovery"}, r.Verb): // reads are not waited for
		w.world.witness.fault("G19: %s of %s %s by %s, which has stopped", r.Verb, r.Resource, r.Name, name)
	case in.dead.Load():
		return apimodel.Fault{Drop: true}
	}
	w.mu.Lock()
	key := r.Verb + r.Resource + r.Subresource + r.Name + name
	w.counts[key]++
	mood, over, n := w.moods[name], w.over, w.counts[key]
	w.mu.Unlock()
	x := draw(w.world.seed, key, n)
	fault := apimodel.Fault{}
	if !over && mood.share > 0 && mood.kind < len(faults) && x%mood.share == 0 {
		fault = faults[mood.kind](x/mood.share, r)
	}
	if fault == (apimodel.Fault{}) && r.Verb != "discovery" { // nothing is instant
		fault = apimodel.Fault{Delay: upTo(x, 20*time.Millisecond), Linger: upTo(x>>20, 20*time.Millisecond)}
	}
	if w.world.traced {
		w.world.Logf("%s %s: %s %s/%s %s: %+v", time.Now().Format("15:04:05.000"), name, r.Verb, r.Resource, r.Name, r.Subresource, fault)
	}
	return fault
}

func upTo(x uint64, d time.Duration) time.Duration { return time.Duration(1 + x%uint64(d)) }

// faults are the kinds of weather: what each does to a request that is hit.
var faults = []func(x uint64, r apimodel.Request) apimodel.Fault{
	func(x uint64, _ apimodel.Request) apimodel.Fault {
		return answer(apierrors.NewTooManyRequests("simulated", int(1+x%3)))
	},
	func(x uint64, _ apimodel.Request) apimodel.Fault {
		return answer([]*apierrors.StatusError{
			apierrors.NewInternalError(errors.New("simulated")), apierrors.NewServiceUnavailable("simulated"),
			apierrors.NewTimeoutError("simulated", 0), apierrors.NewServerTimeout(schema.GroupResource{}, "simulate", 1),
		}[x%4])
	},
	func(_ uint64, r apimodel.Request) apimodel.Fault {
		if r.Verb != "patch" && r.Verb != "update" && r.Verb != "apply" {
			return apimodel.Fault{}
		}
		return answer(apierrors.NewConflict(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("simulated")))
	},
	func(_ uint64, r apimodel.Request) apimodel.Fault {
		return answer(apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("simulated")))
	},
	func(uint64, apimodel.Request) apimodel.Fault { return apimodel.Fault{Lose: true} },
	func(uint64, apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} },
	func(x uint64, _ apimodel.Request) apimodel.Fault {
		return apimodel.Fault{Delay: upTo(x, 8*time.Second)}
	},
	func(x uint64, _ apimodel.Request) apimodel.Fault {
		return apimodel.Fault{Linger: upTo(x, 40*time.Second)}
	},
	func(x uint64, _ apimodel.Request) apimodel.Fault {
		return apimodel.Fault{Delay: upTo(x, 2*time.Second), Linger: upTo(x>>16, 8*time.Second), Lose: x%3 == 0}
	},
	func(x uint64, _ apimodel.Request) apimodel.Fault { // lost before or after it was carried out
		return apimodel.Fault{Delay: upTo(x>>8, time.Second), Drop: x%2 == 0, Lose: true}
	},
}

func answer(err *apierrors.StatusError) apimodel.Fault {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return apimodel.Fault{Answer: &status}
}

// disturb does something to the watches of a resource.
func (w *world) disturb(resource string) {
	switch w.rand.IntN(7) {
	case 0:
		w.model.Cut(resource)
	case 1:
		w.model.Expire(resource)
	case 2, 3:
		w.model.Lag(resource, w.upTo(40*time.Second))
	case 4:
		w.model.Lag(resource, 0)
	case 5:
		w.model.Stall(resource)
	case 6:
		w.model.Release(resource)
	}
}

// calmDown ends all faults.
func (w *world) calmDown() {
	w.weather.end()
	for _, resource := range []string{webPages, configMaps} {
		w.model.Lag(resource, 0)
		w.model.Release(resource)
	}
}
