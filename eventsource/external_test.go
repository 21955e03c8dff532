package eventsource

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// notes records the offers, in order, with the time since the start.
type notes struct {
	mu    sync.Mutex
	begin time.Time
	all   []string
}

func (n *notes) Offer(primary trc.Key, offer Offer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	note := fmt.Sprintf("%s %s", primary.Name, strings.TrimPrefix(offer.Cause.String(), "external "))
	if offer.Initial {
		note += " initial"
	}
	n.all = append(n.all, note)
}

// taken returns what was offered since the last call, sorted.
func (n *notes) taken() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	slices.Sort(all)
	return all
}

func (n *notes) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := n.taken(); !slices.Equal(got, want) {
		t.Fatalf("offered %q, want %q", got, want)
	}
}

// start starts a source in a bubble until the test ends.
func start(t *testing.T, s Source) *notes {
	t.Helper()
	n := &notes{begin: time.Now()}
	stop, err := s.Start(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	synctest.Wait()
	return n
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func primary(name, uid, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{"color": color}}}
}

func isSynced(s Source) bool {
	select {
	case <-s.Synced():
		return true
	default:
		return false
	}
}

func keyOf(name string) trc.Key { return trc.Key{Name: name} }

func TestSourcesOfExternalSystemsRefuseWhatMakesNoSense(t *testing.T) {
	_, polling := NewPolling(PollingOptions[int]{Period: -time.Second, Timeout: -1})
	_, each := NewPollingEach(PollingEachOptions[*corev1.ConfigMap, int]{Name: "e", Workers: -1})
	_, inbound := NewInbound(InboundOptions[int]{Unclaimed: -1})
	_, channel := NewChannel("c", nil)
	_, ticks := NewTicks[*corev1.ConfigMap]("", nil)
	for got, want := range map[error]string{
		polling: `Name is empty|"": Period -1s: must be positive|"": Timeout -1ns: must not be negative|"": Fetch is nil`,
		each:    `"e": Period 0s: must be positive|"e": Fetch is nil|"e": Workers -1: must not be negative`,
		inbound: `Name is empty|"": Unclaimed -1: must not be negative`,
		channel: `"c": the channel is nil`,
		ticks:   `the name is empty|"": next is nil`,
	} {
		if got == nil || strings.ReplaceAll(strings.ReplaceAll(got.Error(), "eventsource: ", ""), "\n", "|") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
