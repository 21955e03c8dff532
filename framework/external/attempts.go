package external

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxAttempts bounds what is kept of creations that are not recorded as done.
const maxAttempts = 10_000

// attempts are what this process knows of creations that are not recorded as done. What is not in it may have been begun by another.
type attempts struct {
	mu    sync.Mutex // guards below; a leaf
	begun map[place]attempt
}

// place is where a record stands.
type place struct {
	primary types.UID
	key     string
}

// attempt is what this process knows of a creation that is not recorded as done.
type attempt struct {
	token string
	begun bool   // Create was called
	id    string // its answer
	// was is the one before, whose record stands until that of this one is confirmed.
	was *attempt
}

// of returns what is known of the creation with a token.
func (s *attempts) of(at place, token string) (a attempt, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ofLocked(at, token)
}

func (s *attempts) ofLocked(at place, token string) (a attempt, known bool) {
	a, known = s.begun[at]
	if a.token != token && a.was != nil {
		a = *a.was
	}
	return a, known && a.token == token
}

// plan notes a creation whose record is to take the place of another, of which the token is recorded, or may yet arrive.
func (s *attempts) plan(at place, token, recorded string) {
	s.mu.Lock()
	was, known := s.ofLocked(at, recorded)
	if !known {
		was, known = s.begun[at]
	}
	s.mu.Unlock()
	a := attempt{token: token}
	if was.was = nil; known {
		a.was = &was
	}
	s.note(at, a)
}

func (s *attempts) note(at place, a attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.begun[at]; known || len(s.begun) < maxAttempts {
		s.begun[at] = a
	}
}

func (s *attempts) forget(at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.begun, at)
}
