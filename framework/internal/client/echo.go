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

// maxEchoBytes bounds what is kept of answers whose echo has not come: enough for some hundred objects.
const maxEchoBytes = 1 << 20

// DecodeCache spares decoding twice what the answer to a write and a watch bring alike: the server encodes an object at
// a version alike for both. Equal bytes are equal objects, whatever they mean. What is not found is decoded.
//
// Invariant: byHash and inOrder hold the same echoes, and size is the length of their texts: at most maxEchoBytes.
// underWay holds the objects to which writes are under way, and early the newest event of each, if there was one.
type DecodeCache struct {
	Watched    atomic.Bool // nothing is kept before
	inProtobuf bool        // watches are in protobuf: no answer in JSON has an echo. Set before the first use

	mu      sync.Mutex // guards below; a leaf
	byHash  map[uint64]*list.Element
	inOrder list.List // of echo, the oldest first
	size    int
	newest  string // version that a watch has brought

	underWay map[trc.Key]*underWay
	early    map[uint64]echo
}

// underWay are the writes to one object that the server has not answered.
type underWay struct {
	writes int
	hash   uint64 // of the text of the echo that came before its answer; 0 if none has
}

type echo struct {
	text   []byte
	object trc.Object
}

var echoSeed = maphash.MakeSeed()

// expect keeps an answer, the bytes of which nobody changes any more, with a copy of the object, unless its
// echo was the faster.
func (e *DecodeCache) expect(answer []byte, object trc.Object) {
	text := bytes.TrimSpace(answer)
	if e.inProtobuf || !e.Watched.Load() || len(text) > maxEchoBytes {
		return
	}
	if e.hasPassed(object.GetResourceVersion()) {
		return
	}
	copied := copyOfAuthors(object)
	if copied == nil {
		return
	}
	hash, expected := maphash.Bytes(echoSeed, text), echo{text, copied}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Watched.Load() || e.byHash[hash] != nil {
		return
	}
	if e.byHash == nil {
		e.byHash = map[uint64]*list.Element{}
	}
	e.byHash[hash] = e.inOrder.PushBack(expected)
	for e.size += len(text); e.size > maxEchoBytes; {
		e.remove(e.inOrder.Front())
	}
}

// copyOfAuthors copies an object where nothing may panic; nil if its DeepCopyObject does.
func copyOfAuthors(o trc.Object) (copied trc.Object) {
	author.Try(func() { copied = o.DeepCopyObject().(trc.Object) })
	return copied
}

// take hands over the object that an event holds, or nil if it is not known. An echo comes once.
func (e *DecodeCache) take(event []byte) trc.Object {
	event = bytes.TrimSpace(event)
	hash := maphash.Bytes(echoSeed, event)
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.byHash[hash]; found != nil && bytes.Equal(found.Value.(echo).text, event) {
		return e.remove(found)
	}
	return nil
}

// begin notes that a write to an object is under way, until end is called as often.
func (e *DecodeCache) begin(key trc.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay == nil {
		e.underWay, e.early = map[trc.Key]*underWay{}, map[uint64]echo{}
	}
	u := e.underWay[key]
	if u == nil {
		u = &underWay{}
		e.underWay[key] = u
	}
	u.writes++
}

// end forgets the write, and with an object's last one the event that came before its answer.
func (e *DecodeCache) end(key trc.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := e.underWay[key]
	if u.writes--; u.writes == 0 {
		delete(e.early, u.hash)
		delete(e.underWay, key)
	}
}

// cameEarly keeps a copy of an object that a watch has brought while a write to it is under way: the answer may
// hold the same.
func (e *DecodeCache) cameEarly(event []byte, object trc.Object) {
	key := trc.KeyOf(object)
	e.mu.Lock()
	u := e.underWay[key]
	e.mu.Unlock()
	if u == nil || len(event) > maxEchoBytes {
		return
	}
	text, copied := bytes.Clone(bytes.TrimSpace(event)), copyOfAuthors(object)
	if copied == nil {
		return
	}
	hash, early := maphash.Bytes(echoSeed, text), echo{text, copied}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay[key] != u {
		return
	}
	delete(e.early, u.hash)
	u.hash, e.early[hash] = hash, early
}

// takeEarly hands over the object that an answer holds if a watch was faster, or nil.
func (e *DecodeCache) takeEarly(answer []byte) trc.Object {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.early) == 0 {
		return nil
	}
	answer = bytes.TrimSpace(answer)
	hash := maphash.Bytes(echoSeed, answer)
	if found, ok := e.early[hash]; ok && bytes.Equal(found.text, answer) {
		delete(e.early, hash)
		return found.object
	}
	return nil
}

// passed notes that a watch has brought a version, and drops the oldest echoes if it was theirs or a later one: they
// are not to come any more. Where several watches share the kind, another may have brought it; then they are
// decoded.
func (e *DecodeCache) passed(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest = version
	for at := e.inOrder.Front(); at != nil && e.hasPassedLocked(at.Value.(echo).object.GetResourceVersion()); at = e.inOrder.Front() {
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
	removed := e.inOrder.Remove(at).(echo)
	delete(e.byHash, maphash.Bytes(echoSeed, removed.text))
	e.size -= len(removed.text)
	return removed.object
}

func (e *DecodeCache) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inOrder.Len()
}

// Rest forgets everything, until a watch begins.
func (e *DecodeCache) Rest() {
	e.Watched.Store(false)
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := e.inOrder.Front(); at != nil; at = e.inOrder.Front() {
		e.remove(at)
	}
}
