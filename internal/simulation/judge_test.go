package simulation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// judge goes through the history, commit by commit.
type judge struct {
	world   *world
	cleaned map[types.UID]int64
	pages   map[types.UID]*unstructured.Unstructured // that are there now
	holder  string                                   // of the lease
	renewed time.Time                                // when that was stored, at the latest
}

func (j *judge) take(c apimodel.Commit) {
	by := instanceOf(c.UserAgent)
	switch {
	case c.Resource == "leases":
		j.holder, _, _ = unstructured.NestedString(c.Object.Object, "spec", "holderIdentity")
		j.renewed = c.At
		return
	case c.Resource == webPages:
		defer j.note(c)
	case c.Resource != configMaps:
		return
	}
	if by == foreigner {
		return
	}
	if j.world.plan.rivals {
		j.judgeLease(by, c)
	}
	if c.Resource == webPages {
		j.judgeFinalizers(by, c)
	}
	j.judgeTarget(by, c)
}

// note keeps what pages there are.
func (j *judge) note(c apimodel.Commit) {
	if j.pages[c.Object.GetUID()] = c.Object; c.Event == watch.Deleted {
		delete(j.pages, c.Object.GetUID())
	}
}

// judgeLease: who writes holds the lease, and has renewed it in time (G06). What the lease says of
// that may be older: a renewal that is repeated says when it was tried first.
func (j *judge) judgeLease(by string, c apimodel.Commit) {
	if by != j.holder {
		j.world.witness.fault("G06: %s made version %d at %v, while %q held the lease", by, c.Version, c.At, j.holder)
	}
	if late := c.At.Sub(j.renewed); late > renewDeadline {
		j.world.witness.fault("G06: %s made version %d at %v, %v after it had renewed the lease", by, c.Version, c.At, late)
	}
}

// judgeFinalizers: the own one comes before deletion is requested and goes after Cleanup has
// succeeded, and those of others stay as they are (G09).
func (j *judge) judgeFinalizers(by string, c apimodel.Commit) {
	if c.Previous == nil {
		j.world.witness.fault("G14: %s created a page at %d", by, c.Version)
		return
	}
	before, after := c.Previous.GetFinalizers(), c.Object.GetFinalizers()
	if c.Event == watch.Deleted {
		after = nil // the last finalizer went
	}
	others := func(all []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return f == keeperFinalizer })
	}
	if !slices.Equal(others(before), others(after)) {
		j.world.witness.fault("G09: %s made %q of the finalizers %q at %d", by, after, before, c.Version)
	}
	had, has := slices.Contains(before, keeperFinalizer), slices.Contains(after, keeperFinalizer)
	switch at, cleaned := j.cleaned[c.Object.GetUID()]; {
	case !had && has && c.Previous.GetDeletionTimestamp() != nil:
		j.world.witness.fault("G09: %s put the finalizer on at %d, though deletion was requested", by, c.Version)
	case had && !has && (!cleaned || at >= c.Version):
		j.world.witness.fault("G09: %s took the finalizer off at %d, before Cleanup had succeeded (at %d): %s", by, c.Version, at, j.world.truth.tell(200))
	case had && !has && c.Previous.GetDeletionTimestamp() == nil:
		j.world.witness.fault("G09: %s took the finalizer off at %d, and nobody had asked for deletion", by, c.Version)
	}
}

// judgeTarget: what was meant for one incarnation of a page is not on another, and the finalizer
// was there before (G14, G09).
func (j *judge) judgeTarget(by string, c apimodel.Commit) {
	if c.Resource == webPages {
		url, _, _ := unstructured.NestedString(c.Object.Object, "status", "url")
		if url != "" && !strings.HasPrefix(url, string(c.Object.GetUID())+" ") {
			j.world.witness.fault("G14: %s wrote at %d to %s with UID %s the status of another: %s", by, c.Version, c.Object.GetName(), c.Object.GetUID(), url)
		}
		return
	}
	uid, _, _ := unstructured.NestedString(c.Object.Object, "data", "uid")
	p := j.pages[types.UID(uid)]
	if c.Manager == keeperName && c.Event != watch.Deleted && p != nil && !slices.Contains(p.GetFinalizers(), keeperFinalizer) && p.GetDeletionTimestamp() == nil {
		j.world.witness.fault("G09: %s wrote %s at %d before the finalizer was on its page", by, c.Object.GetName(), c.Version)
	}
}
