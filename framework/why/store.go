package why

import (
	"container/list"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

// id is a primary of a controller.
type id struct {
	controller string
	primary    types.NamespacedName
}

// entry is the record of one run.
type entry struct {
	of     id
	record timeline.Record
	bytes  int
}

// store keeps records.
//
// Invariant: order holds all entries in the order in which their runs ended. byID holds the same
// entries by primary, each list in that order, none of them empty and none longer than each. bytes
// is their sum; it is above limit only if there is one entry.
type store struct {
	limit, each int

	mu    sync.Mutex // guards everything below; a leaf
	order list.List  // of *entry
	byID  map[id][]*list.Element
	bytes int
	added uint64        // the number of entries ever
	news  chan struct{} // closed with the next entry; nil if nobody waits
}

func (s *store) add(of id, r timeline.Record) {
	e := &entry{of, r, bytesOf(r)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[of] = append(s.byID[of], s.order.PushBack(e))
	s.bytes += e.bytes
	if all := s.byID[of]; len(all) > s.each {
		s.removeLocked(all[0])
	}
	for s.bytes > s.limit && s.order.Len() > 1 {
		s.removeLocked(s.order.Front())
	}
	s.added++
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// removeLocked removes the oldest entry of a primary.
func (s *store) removeLocked(oldest *list.Element) {
	e := s.order.Remove(oldest).(*entry)
	s.bytes -= e.bytes
	if s.byID[e.of] = slices.Delete(s.byID[e.of], 0, 1); len(s.byID[e.of]) == 0 {
		delete(s.byID, e.of)
	}
}

// of returns the records of a primary, newest first.
func (s *store) of(of id) []timeline.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []timeline.Record
	for _, element := range slices.Backward(s.byID[of]) {
		all = append(all, element.Value.(*entry).record)
	}
	return all
}

// all returns the entries of a controller, newest first.
func (s *store) all(controller string) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*entry
	for element := s.order.Back(); element != nil; element = element.Prev() {
		if e := element.Value.(*entry); e.of.controller == controller {
			all = append(all, e)
		}
	}
	return all
}

// kept returns the number of records, and of the bytes that they take.
func (s *store) kept() (records, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Len(), s.bytes
}

// after returns how many entries there ever were, and a channel that is closed when there are more
// than so many.
func (s *store) after(seen uint64) (added uint64, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.added > seen {
		closed := make(chan struct{})
		close(closed)
		return s.added, closed
	}
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.added, s.news
}

// The sizes of what records are made of, without their texts.
const (
	recordBytes  = 400 // with the entry and its places
	causeBytes   = 200
	requestBytes = 48
	nodeBytes    = 150
	fightBytes   = 180
	loopBytes    = 64
)

// bytesOf estimates the size of a record.
func bytesOf(r timeline.Record) int {
	n := recordBytes + causeBytes*len(r.Causes) + len(r.Err) + len(r.Stack) + len(r.ID)
	for _, q := range r.Requests {
		n += requestBytes + len(q.Text)
	}
	for _, node := range r.Nodes {
		n += nodeBytes + len(node.Name) + len(node.Reason) + len(node.Err)
	}
	for _, cause := range r.Causes {
		if c, ok := cause.(timeline.Resource); ok {
			n += len(c.Name) + len(c.Namespace) + len(c.UID) + len(c.OldVersion) + len(c.NewVersion) + len(c.Fields)
		}
	}
	for _, f := range r.Fights {
		n += fightBytes + len(f.Name) + len(f.Namespace) + len(f.Fields) + len(f.Other) + len(f.Rival)
	}
	if r.Loop != nil {
		n += loopBytes
	}
	return n
}
