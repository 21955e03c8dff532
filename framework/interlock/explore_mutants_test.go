package interlock

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/depth"
)

// TestExplorationFindsMutants: exploring a world to its end without a finding proves something only
// if faults would be found. With -v it prints how.
//
// One change is not among the mutants, because it is not a fault: joining another without the
// second check of enterBeside. The own claim is stored before the table is searched for another,
// and a holder in the table also has a stored claim, unless it is in deletion. So both claims exist
// at the same time, which is all that joining needs, even if the other leaves in between. The
// second check matters if the table is searched before claiming, which is a mutant.
func TestExplorationFindsMutants(t *testing.T) {
	notRaced(t)
	for _, m := range mistakes() {
		t.Run(m.name, func(t *testing.T) { m.isFound(t, m.scenario) })
	}
}

// TestMistakesAreFoundInEveryOrder: so must the worlds of two of each in which everything happens.
// A late write to a provider that has come since takes more steps than they can be explored to
// soon: the world of that mistake is small.
func TestMistakesAreFoundInEveryOrder(t *testing.T) {
	if !depth.Long() {
		t.Skip("make test-long explores so many states")
	}
	for _, m := range mistakes() {
		if m.among.providers > 0 {
			t.Run(m.name, func(t *testing.T) { m.isFound(t, m.among) })
		}
	}
}

// notRaced skips a test of one goroutine, in which the race detector has nothing to find. make test
// runs it without.
func notRaced(t *testing.T) {
	t.Helper()
	if depth.Raced() {
		t.Skip("one goroutine has no races; make test runs it without the race detector, too")
	}
}

func (m mistake) isFound(t *testing.T, in scenario) {
	t.Parallel()
	r := production()
	m.mutate(&r)
	x := explore(in, r)
	x.limit = 3_000_000
	found := x.run()
	if !strings.Contains(found, "VIOLATION") || !strings.Contains(found, m.finds) {
		t.Errorf("not found in %d states: %s", len(x.visited), found)
	}
	t.Logf("in %d states\n%s", len(x.visited), found)
}

// mistake is a way to break the rules, and a scenario that shows it.
type mistake struct {
	name     string
	mutate   func(r *rules)
	scenario scenario
	// One of the scenarios in which everything happens that finds it soon; zero if there is none.
	among  scenario
	finds  string // in the transcript
	common bool   // random walks come across it soon, too
}

func mistakes() []mistake {
	return []mistake{
		{
			"the cache is believed that nobody uses a provider",
			func(r *rules) { r.mayGo = trusting }, oneOfEach(), arriving(), "not kept", false,
		},
		{
			"the list is served from a watch cache",
			func(r *rules) { r.staleList = true }, oneOfEach(), arriving(), "not kept", false,
		},
		{
			"providers in deletion are granted",
			func(r *rules) { r.deletionUnchecked = true }, oneOfEach(), shared(), "in deletion", true,
		},
		{
			"providers are read from the cache",
			func(r *rules) { r.providerFromCache = true }, oneOfEach(), shared(), "in deletion", true,
		},
		{
			"a provider is read before the claim is stored",
			func(r *rules) { r.acquire = acquireReadingFirst }, oneOfEach(), shared(), "in deletion", true,
		},
		{
			"who holds a provider is looked for before the claim is stored, and not again",
			func(r *rules) { r.acquire = acquireJoiningFirst }, twoDependents(), apart().withoutFaults().withChanges(3), "has not been claimed all the time since", false,
		},
		{
			"who lets go of a provider holds it until the claim is off",
			func(r *rules) { r.leaveLast = true }, lettingGo(), shared(), "and does not claim it", false,
		},
		{
			"a dependent in deletion is joined, which does not leave",
			func(r *rules) { r.joinsDeleted = true }, cleaningUpAlone(), crossed().withoutFaults().withChanges(3), "has not been claimed all the time since", false,
		},
		{
			"the old provider is released before the implementation lets go of it",
			func(r *rules) { r.releaseFirst = true }, switching(), shared(), "and does not claim it", false,
		},
		{
			"claims that the cache shows are believed",
			func(r *rules) { r.claimFromCache = true }, standingBy(), apart(), "and does not claim it", false,
		},
		{
			"claims are looked up, and not whether the dependent still refers to what it claims",
			func(r *rules) { r.unreferred = true }, standingBy(), apart(), "and does not claim it", false,
		},
		{
			"claims are looked up, and not whether the dependent is in deletion",
			func(r *rules) { r.inDeletion = true }, standingBy(), apart(), "is gone, and still implemented", false,
		},
		{
			"claims are written whatever the version",
			func(r *rules) { r.anyVersion = true }, flipping(), arriving(), "still claims p0", true,
		},
		{
			"the finalizer is taken off whatever provider has the name",
			func(r *rules) { r.unconditional = true }, losing(),
			scenario{},
			"not kept", true,
		},
	}
}

// trusting is mayGo without the list.
func trusting(_ context.Context, side providerSide) (string, error) { return side.cached() }

// acquireReadingFirst is acquire that reads a provider, and then stores the claim.
func acquireReadingFirst(h *holders, ctx context.Context, me dependentID, providers []types.NamespacedName, side dependentSide) ([]Denial, error) {
	if len(providers) != 1 {
		return h.acquire(ctx, me, providers, side)
	}
	key := providers[0]
	uid, reason, err := side.provider(ctx, key)
	if err != nil || uid == "" {
		return []Denial{{key, reason}}, err
	}
	if carried, err := side.claim(ctx, providers); err != nil || !slices.Contains(carried, key) {
		return []Denial{{key, Unclaimable}}, err
	}
	h.enter(me, key, uid)
	return nil, nil
}

// acquireJoiningFirst is acquire that finds another holder, stores the claim, and enters beside
// that one.
func acquireJoiningFirst(h *holders, ctx context.Context, me dependentID, providers []types.NamespacedName, side dependentSide) ([]Denial, error) {
	if len(providers) != 1 {
		return h.acquire(ctx, me, providers, side)
	}
	key := providers[0]
	uid, found := vouchedFor(h, me, key, side)
	if carried, err := side.claim(ctx, providers); err != nil || !slices.Contains(carried, key) {
		return []Denial{{key, Unclaimable}}, err
	}
	if !found {
		return h.acquire(ctx, me, providers, side)
	}
	h.enter(me, key, uid)
	return nil, nil
}

// vouchedFor finds another holder for whom the caches vouch.
func vouchedFor(h *holders, me dependentID, key types.NamespacedName, side dependentSide) (uid types.UID, found bool) {
	uid, other, exists := h.another(me, key)
	if !exists {
		return "", false
	}
	vouched, dying := side.vouches(other, key, uid)
	return uid, vouched && !dying
}
