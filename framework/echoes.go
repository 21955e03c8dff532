package framework

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxEchoBytes bounds what is kept of answers whose echo has not come: enough for some hundred objects.
const maxEchoBytes = 1 << 20

// echoes spares a watch decoding what the answer to a write has brought already: the server encodes an object at
// a version alike for both. Equal bytes are equal objects, whatever they mean. An echo that is not found is
// decoded.
//
// Invariant: byHash and inOrder hold the same echoes, and size is the length of their texts: at most maxEchoBytes.
type echoes struct {
	watched atomic.Bool // nothing is kept before

	mu      sync.Mutex // guards below; a leaf
	byHash  map[uint64]*list.Element
	inOrder list.List // of echo, the oldest first
	size    int
	newest  string // version that a watch has brought
}

type echo struct {
	text   []byte
	object Object
}

var echoSeed = maphash.MakeSeed()

// expect keeps an answer, the bytes of which nobody changes any more, with a copy of the object, unless its
// echo was the faster.
func (e *echoes) expect(answer []byte, object Object) {
	text := bytes.TrimSpace(answer)
	if !e.watched.Load() || len(text) > maxEchoBytes {
		return
	}
	if e.hasPassed(object.GetResourceVersion()) {
		return
	}
	hash, expected := maphash.Bytes(echoSeed, text), echo{text, object.DeepCopyObject().(Object)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byHash[hash] != nil {
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

// take hands over the object that an event holds, or nil if it is not known. An echo comes once.
func (e *echoes) take(event []byte) Object {
	event = bytes.TrimSpace(event)
	hash := maphash.Bytes(echoSeed, event)
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.byHash[hash]; found != nil && bytes.Equal(found.Value.(echo).text, event) {
		return e.remove(found)
	}
	return nil
}

// passed notes that a watch has brought a version, and drops the oldest echoes if it was theirs or a later one: they
// are not to come any more. Where several watches share the kind, another may have brought it; then they are
// decoded.
func (e *echoes) passed(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.newest = version
	for at := e.inOrder.Front(); at != nil && e.hasPassedLocked(at.Value.(echo).object.GetResourceVersion()); at = e.inOrder.Front() {
		e.remove(at)
	}
}

func (e *echoes) hasPassed(version string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasPassedLocked(version)
}

func (e *echoes) hasPassedLocked(version string) bool {
	order, err := resourceversion.CompareResourceVersion(version, e.newest)
	return err == nil && order <= 0
}

func (e *echoes) remove(at *list.Element) Object {
	removed := e.inOrder.Remove(at).(echo)
	delete(e.byHash, maphash.Bytes(echoSeed, removed.text))
	e.size -= len(removed.text)
	return removed.object
}

func (e *echoes) len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inOrder.Len()
}
