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

// TB is the part of [testing.TB] that checks use.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// SourceCheck configures [CheckSource]: how a source is created, and what affects it.
type SourceCheck struct {
	// New creates a source. Required. Every check creates one. All must have the same name, and may
	// share the outside world.
	New func() (eventsource.Source, error)
	// Provoke changes the outside world so that the source makes the primary due, each time it is
	// called. It must not wait for that. Default: offers are not checked.
	Provoke func(source eventsource.Source, primary trc.Key)
	// Fail makes the outside world fail so that Err reports it, and Mend ends that. Set both or
	// neither. Default: failures are not checked.
	Fail, Mend func(source eventsource.Source)
	// Primary creates a primary that the source can be notified of, a new object each time. Default: a
	// ConfigMap.
	Primary func(name types.NamespacedName, uid types.UID) trc.Object
	// Held, if set, returns the number of primaries for which the source keeps state.
	Held func(source eventsource.Source) int
	// Patience is how long anything may take. Default: 10 s. A higher value costs time only if a check
	// fails.
	Patience time.Duration
	// Quiet is how long a check waits when nothing must happen. Default: 100 ms; within synctest, use
	// hours.
	Quiet time.Duration
}

// CheckSource checks that a source fulfils the contract of [eventsource.Source], and of
// [eventsource.PrimaryWatcher] if it implements that:
//
//   - Its name is not empty and does not change.
//   - Start returns without waiting for the outside world, even if that fails, and may be called
//     again after an error.
//   - Synced returns one channel, which is closed in the end, even if there is nothing.
//   - Provoked primaries are offered, from any goroutine, with the name of the source.
//   - The source holds no lock while it offers: the sink may call it, and it may be notified of
//     primaries, during an offer.
//   - stop returns, even right after Start and while the outside world fails. It leaves no
//     goroutine except idle connections of net/http, and nothing is offered after it.
//   - Err reports a failure until it is over.
//   - The source keeps nothing of primaries that are gone, or whose name another primary has taken.
//
// Panics of the source are not recovered, so the test shows them.
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
	// provokes and fails say which functions of the SourceCheck the check needs.
	provokes, fails bool
	check           func(s *subject)
}

// sourceRules are all rules.
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

// keyOf returns the key of the i-th primary of a check.
func keyOf(i int) trc.Key { return trc.Key{Namespace: "default", Name: fmt.Sprint("primary-", i)} }
