package frameworktest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// TB is what checks use of a [testing.TB].
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// SourceCheck says how a source is made and what moves it.
type SourceCheck struct {
	// New makes a source, required. Every check takes one, and all have the same name. The world outside of it may be the same.
	New func() (eventsource.Source, error)
	// Provoke changes the world outside so that the source makes the primary due, each time it is called. It must not wait
	// for that. Without it, no check is made of what is offered.
	Provoke func(source eventsource.Source, primary trc.Key)
	// Fail lets the world outside fail so that Err says so, and Mend takes that back. Without both, no check is made of
	// failures.
	Fail, Mend func(source eventsource.Source)
	// Primary makes a primary that the source may be told of, a new object each time. Default: a ConfigMap.
	Primary func(name types.NamespacedName, uid types.UID) trc.Object
	// Held, if set, returns how many primaries the source keeps something for.
	Held func(source eventsource.Source) int
	// Patience is how long anything may take to happen. Default 10 s. Higher costs nothing unless it fails.
	Patience time.Duration
	// Quiet is how long is waited where nothing must happen. Default 100 ms; within synctest, give hours.
	Quiet time.Duration
}

// CheckSource checks that a source keeps the contract of [eventsource.Source], and of [eventsource.PrimaryWatcher] if it
// is one:
//
//   - its name is not empty and stays the same;
//   - Start returns without waiting for the world, even one that fails, and after an error may be called again;
//   - Synced returns one channel, which is closed in the end, also if there is nothing;
//   - what is provoked is offered, from any goroutine, in the name of the source;
//   - it calls out without locks: the sink may ask it, and it may be told of primaries, during an offer;
//   - stop returns, also at once after Start and while the world fails, leaves no goroutine but idle connections of
//     net/http, and nothing is offered after it;
//   - Err shows a failure, and no longer once it is over;
//   - of primaries that are gone, or whose name another has taken, nothing is kept.
//
// Panics of the source are not caught: they would show in the test.
func CheckSource(t TB, check SourceCheck) {
	t.Helper()
	if check.New == nil || (check.Fail == nil) != (check.Mend == nil) {
		t.Errorf("frameworktest: SourceCheck: New is required, and Fail and Mend go together")
		return
	}
	if check.Primary == nil {
		check.Primary = configMap
	}
	if check.Patience == 0 {
		check.Patience = 10 * time.Second
	}
	if check.Quiet == 0 {
		check.Quiet = 100 * time.Millisecond
	}
	for _, rule := range sourceRules {
		if rule.provokes && check.Provoke == nil || rule.fails && check.Fail == nil {
			continue
		}
		s := subject{SourceCheck: check, t: t, rule: rule.name}
		if s.make() {
			rule.check(&s)
		}
	}
}

// sourceRule is one rule of the contract.
type sourceRule struct {
	name string
	// provokes and fails say what the check needs.
	provokes, fails bool
	check           func(s *subject)
}

// sourceRules are all of them.
var sourceRules = []sourceRule{
	{name: "the name stays the same", check: keepsItsName},
	{name: "it gets synced", check: getsSynced},
	{name: "what is provoked is offered", provokes: true, check: offers},
	{name: "it holds no lock while it offers", provokes: true, check: offersWithoutLocks},
	{name: "it works from many goroutines", provokes: true, check: worksFromManyGoroutines},
	{name: "nothing is offered after stop", provokes: true, check: isSilentAfterStop},
	{name: "it ends at once", check: endsAtOnce},
	{name: "it ends while the world fails", fails: true, check: endsWhileTheWorldFails},
	{name: "it shows failures", fails: true, check: showsFailures},
	{name: "it starts after a failure", fails: true, check: startsAfterAFailure},
	{name: "nothing is kept of primaries that are gone", check: forgets},
}

func configMap(name types.NamespacedName, uid types.UID) trc.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: name.Namespace, Name: name.Name, UID: uid, ResourceVersion: "1", Generation: 1,
	}}
}

// keyOf is the i-th primary of a check.
func keyOf(i int) trc.Key { return trc.Key{Namespace: "default", Name: fmt.Sprint("primary-", i)} }
