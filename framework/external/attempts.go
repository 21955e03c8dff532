package external

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxAttempts is how many creations are kept that are not recorded as done.
const maxAttempts = 10_000

// attempts are the creations of this process that are not recorded as done. A creation that is not
// in it may have been started by another process.
type attempts struct {
	mu    sync.Mutex // guards the fields below; a leaf
	byKey map[recordKey]attempt
}

// recordKey identifies a record.
type recordKey struct {
	primary types.UID
	key     string
}

// attempt is the progress of a creation that is not recorded as done.
type attempt struct {
	token string
	begun bool   // Create was called
	id    string // the id in its answer
	// was is the attempt before, whose record stays until the record of this one is confirmed.
	previous *attempt
}

// of returns the attempt with a token.
func (s *attempts) of(at recordKey, token string) (a attempt, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ofLocked(at, token)
}

func (s *attempts) ofLocked(at recordKey, token string) (a attempt, known bool) {
	a, known = s.byKey[at]
	if a.token != token && a.previous != nil {
		a = *a.previous
	}
	return a, known && a.token == token
}

// plan adds a creation whose record is to replace another one. recorded is the token of that
// record, which may not have arrived yet.
func (s *attempts) plan(at recordKey, token, recorded string) {
	s.mu.Lock()
	was, known := s.ofLocked(at, recorded)
	if !known {
		was, known = s.byKey[at]
	}
	s.mu.Unlock()
	a := attempt{token: token}
	if was.previous = nil; known {
		a.previous = &was
	}
	s.put(at, a)
}

func (s *attempts) put(at recordKey, a attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byKey[at]; known || len(s.byKey) < maxAttempts {
		s.byKey[at] = a
	}
}

func (s *attempts) forget(at recordKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, at)
}
