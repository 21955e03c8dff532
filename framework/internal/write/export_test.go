package write

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// LeftOfConfirmed returns how much is remembered of an object after a newer version of it was
// confirmed, in the course of which it may be dropped.
func LeftOfConfirmed(known, newer trc.Object, gone func(drop func())) int {
	var m memo
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	said := memoKey{gvk: gvk, key: trc.KeyOf(known)}
	m.remember(said, []byte("{}"), known)
	recalled, _ := m.recall(said)
	gone(func() { m.drop(gvk, said.key) })
	m.stillConfirms(said, recalled, nil, newer, true, true)
	return m.Len()
}

// Confirms tells whether an apply of an intent is known to change nothing about an object, after
// the server confirmed it of a former state of that.
func Confirms(intent map[string]any, confirmed, now trc.Object) bool {
	body, err := json.Marshal(intent)
	if err != nil {
		panic(err)
	}
	var m memo
	said := memoKey{gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, key: trc.KeyOf(confirmed)}
	m.remember(said, body, confirmed)
	known, _ := m.recall(said)
	return known.isOf(now, body) &&
		(known.live.GetResourceVersion() == now.GetResourceVersion() || m.stillConfirms(said, known, intent, now, true, true))
}

// NoteAllocations is how often a writer allocates to note a request and a read of a run that nobody
// reads of.
func NoteAllocations(store *trc.Store, o trc.Object) float64 {
	var r Record
	return testing.AllocsPerRun(100, func() { r.request(&Request{verb: "apply"}); r.Reads(store, o) })
}
