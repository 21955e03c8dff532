package eventsource_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// printed stands for a controller.
type printed chan string

func (p printed) Offer(primary trc.Key, offer eventsource.Offer) {
	p <- fmt.Sprintf("%s is due: %s", primary, offer.Cause)
}

// repository is what a hosting service has for a primary.
type repository struct {
	Name  string
	Stars int
}

var byName = eventsource.ValuesOptions[repository]{ID: func(r repository) string { return r.Name }}

func ExamplePolling() {
	repositories, err := eventsource.NewPolling(eventsource.PollingOptions[repository]{
		Name: "repositories", Period: time.Minute, Values: byName,
		Fetch: func(context.Context) (map[trc.Key][]repository, error) {
			return map[trc.Key][]repository{{Namespace: "default", Name: "team"}: {{"hull", 3}}}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	// With a controller, ControllerOptions.Sources starts it.
	due := printed(make(chan string, 1))
	stop, err := repositories.Start(due)
	if err != nil {
		panic(err)
	}
	defer stop()
	fmt.Println(<-due)
	fmt.Println(repositories.Of(trc.Key{Namespace: "default", Name: "team"}))
	// Output:
	// default/team is due: external repositories hull
	// [{hull 3}]
}

// A value that a reconciler has written is read at once, and its echo in a later poll is no reason
// to run again.
func ExampleValues_Wrote() {
	repositories, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[*corev1.ConfigMap, repository]{
		Name: "repositories", Period: time.Minute, Values: byName,
		Fetch: func(context.Context, *corev1.ConfigMap) (eventsource.Fetched[repository], error) {
			return eventsource.Fetched[repository]{Values: []repository{{"hull", 3}}}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	team := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "team"}}
	// as in a reconciler, before the first poll
	fmt.Println(repositories.Fetch(context.Background(), team))
	repositories.Wrote(trc.KeyOf(team), repository{"keel", 0}) // after it has been created
	fmt.Println(repositories.Fetch(context.Background(), team))
	// Output:
	// [{hull 3}] <nil>
	// [{hull 3} {keel 0}] <nil>
}

func ExampleInbound() {
	builds, err := eventsource.NewInbound(eventsource.InboundOptions[string]{Name: "builds"})
	if err != nil {
		panic(err)
	}
	due := printed(make(chan string, 1))
	stop, err := builds.Start(due)
	if err != nil {
		panic(err)
	}
	defer stop()
	team := trc.Key{Namespace: "default", Name: "team"}
	builds.Push(team, "green") // as a web hook's handler does
	fmt.Println(<-due)
	builds.Push(team, "green") // nothing new
	builds.Trigger(team, "by hand")
	fmt.Println(<-due)
	// Output:
	// default/team is due: external builds
	// default/team is due: external builds by hand
}

func ExampleNewChannel() {
	jobs := make(chan eventsource.Trigger, 1)
	source, err := eventsource.NewChannel("jobs", jobs)
	if err != nil {
		panic(err)
	}
	due := printed(make(chan string, 1))
	stop, err := source.Start(due)
	if err != nil {
		panic(err)
	}
	defer stop()
	jobs <- eventsource.Trigger{Primary: trc.Key{Namespace: "default", Name: "team"}, ID: "17"}
	fmt.Println(<-due)
	// Output: default/team is due: external jobs 17
}

func ExampleNewTicks() {
	nightly, err := eventsource.NewTicks("nightly", func(_ *corev1.ConfigMap, after time.Time) time.Time {
		return after.UTC().Truncate(24 * time.Hour).Add(26 * time.Hour) // at two o'clock of the next day
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(nightly.Name())
	// Output: nightly
}

func ExampleExpectations() {
	// In an operator, what expectations are judged by is the run's *framework.Context.
	expectations, err := eventsource.NewExpectations[int]("expectations")
	if err != nil {
		panic(err)
	}
	team := trc.Key{Namespace: "default", Name: "team"}
	if err := expectations.Expect(team, "three replicas", 5*time.Minute, func(ready int) bool { return ready >= 3 }); err != nil {
		panic(err)
	}
	fmt.Println(expectations.Check(team, 2))
	fmt.Println(expectations.Check(team, 3))
	fmt.Println(expectations.Check(team, 3))
	// Output:
	// three replicas pending
	// three replicas fulfilled
	//  nothing expected
}
