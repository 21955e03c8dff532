package client

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// maxCacheBytes is how many bytes of answers are kept whose watch event has not arrived: enough for
// some hundred objects.
const maxCacheBytes = 1 << 20

// DecodeCache avoids decoding an object twice, from the answer to a write and from its watch event:
// the server encodes a version of an object identically for both. Equal bytes are equal objects,
// whatever they contain. An object that is not in the cache is decoded.
//
// Invariants: byHash and inOrder hold the same objects, and size is the length of their texts, at
// most maxCacheBytes. underWay holds the objects with writes under way, and early the newest event
// of each, if there was one.
type DecodeCache struct {
	Watched    atomic.Bool // nothing is kept before it is set
	inProtobuf bool        // watches use protobuf: no event equals an answer; set before use

	mu      sync.Mutex // guards the fields below; a leaf
	byHash  map[uint64]*list.Element
	inOrder list.List // of decoded, oldest first
	size    int
	newest  string // the newest version that a watch has delivered

	underWay map[trc.Key]*underWay
	early    map[uint64]decoded
}

// underWay counts the unanswered writes to one object.
type underWay struct {
	writes int
	hash   uint64 // of the event that arrived before its answer; 0 if none has
}

type decoded struct {
	text   []byte
	object trc.Object
}

var hashSeed = maphash.MakeSeed()

// add keeps an answer and a copy of its object, unless the watch event has already arrived. The
// bytes of the answer must not be changed afterwards.
func (e *DecodeCache) add(answer []byte, object trc.Object) {
	text := bytes.TrimSpace(answer)
	if e.inProtobuf || !e.Watched.Load() || len(text) > maxCacheBytes {
		return
	}
	if e.hasPassed(object.GetResourceVersion()) {
		return
	}
	copied := copyOrNil(object)
	if copied == nil {
		return
	}
	hash, expected := maphash.Bytes(hashSeed, text), decoded{text, copied}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Watched.Load() || e.byHash[hash] != nil {
		return
	}
	if e.byHash == nil {
		e.byHash = map[uint64]*list.Element{}
	}
	e.byHash[hash] = e.inOrder.PushBack(expected)
	for e.size += len(text); e.size > maxCacheBytes; {
		e.remove(e.inOrder.Front())
	}
}

// copyOrNil copies an object, and returns nil if its DeepCopyObject panics.
func copyOrNil(o trc.Object) (copied trc.Object) {
	author.Try(func() { copied = o.DeepCopyObject().(trc.Object) })
	return copied
}

// take removes and returns the object of an event, or returns nil. An event arrives once.
func (e *DecodeCache) take(event []byte) trc.Object {
	event = bytes.TrimSpace(event)
	hash := maphash.Bytes(hashSeed, event)
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.byHash[hash]; found != nil && bytes.Equal(found.Value.(decoded).text, event) {
		return e.remove(found)
	}
	return nil
}

// begin records that a write to an object is under way. end must be called once for each begin.
func (e *DecodeCache) begin(key trc.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay == nil {
		e.underWay, e.early = map[trc.Key]*underWay{}, map[uint64]decoded{}
	}
	u := e.underWay[key]
	if u == nil {
		u = &underWay{}
		e.underWay[key] = u
	}
	u.writes++
}

// end records that the write has ended. After an object's last write it also drops the event that
// arrived before its answer.
func (e *DecodeCache) end(key trc.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.underWay[key]
	if u.writes--; u.writes == 0 {
		delete(e.early, u.hash)
		delete(e.underWay, key)
	}
}

// addEarly keeps a copy of an object that a watch has delivered while a write to it is under way:
// the answer may contain the same.
func (e *DecodeCache) addEarly(event []byte, object trc.Object) {
	key := trc.KeyOf(object)
	e.mu.Lock()
	u := e.underWay[key]
	e.mu.Unlock()
	if u == nil || len(event) > maxCacheBytes {
		return
	}
	text, copied := bytes.Clone(bytes.TrimSpace(event)), copyOrNil(object)
	if copied == nil {
		return
	}
	hash, early := maphash.Bytes(hashSeed, text), decoded{text, copied}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay[key] != u {
		return
	}
	delete(e.early, u.hash)
	u.hash, e.early[hash] = hash, early
}

// takeEarly removes and returns the object of an answer if its watch event came first, or returns
// nil.
func (e *DecodeCache) takeEarly(answer []byte) trc.Object {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.early) == 0 {
		return nil
	}
	answer = bytes.TrimSpace(answer)
	hash := maphash.Bytes(hashSeed, answer)
	if found, ok := e.early[hash]; ok && bytes.Equal(found.text, answer) {
		delete(e.early, hash)
		return found.object
	}
	return nil
}

// advance records the version that a watch has delivered, and drops the objects at that version or
// before: their events have passed. If several watches share the kind, another one may have
// delivered the version; then the remaining events are decoded.
func (e *DecodeCache) advance(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest = version
	for at := e.inOrder.Front(); at != nil && e.hasPassedLocked(at.Value.(decoded).object.GetResourceVersion()); at = e.inOrder.Front() {
		e.remove(at)
	}
}

func (e *DecodeCache) hasPassed(version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasPassedLocked(version)
}

func (e *DecodeCache) hasPassedLocked(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, e.newest)
	return err == nil && order <= 0
}

func (e *DecodeCache) remove(at *list.Element) trc.Object {
	removed := e.inOrder.Remove(at).(decoded)
	delete(e.byHash, maphash.Bytes(hashSeed, removed.text))
	e.size -= len(removed.text)
	return removed.object
}

// Len returns the number of answers that are kept.
func (e *DecodeCache) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inOrder.Len()
}

// Rest drops everything and keeps nothing until a watch begins.
func (e *DecodeCache) Rest() {
	e.Watched.Store(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := e.inOrder.Front(); at != nil; at = e.inOrder.Front() {
		e.remove(at)
	}
}
