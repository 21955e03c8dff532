package externaltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/evenkeel/evenkeel/trc"
)

// record is what the service has of a page.
type record struct {
	Page    trc.Key
	HTML    string
	URL     string
	Version int
	Gone    bool `json:",omitempty"` // in a push
}

// mood is how the service answers.
type mood string

const (
	well    mood = "well"
	down    mood = "down"    // 500
	garbled mood = "garbled" // not what was expected
	hanging mood = "hanging" // not at all
)

// service keeps records, and tells hooks of changes, in their order.
type service struct {
	*httptest.Server
	changes chan record // to be told to hook

	mu      sync.Mutex // guards below
	records map[trc.Key]record
	version int
	puts    map[trc.Key]int
	gets    int
	mood    mood
	held    chan struct{} // what GETs wait for after they have read; nil if they do not
	holding int
}

// newService returns one that tells of changes where hook says, unless that is empty.
func newService(hook func() string) *service {
	s := &service{records: map[trc.Key]record{}, puts: map[trc.Key]int{}, mood: well, changes: make(chan record, 1000)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /records", s.answer(s.list))
	mux.HandleFunc("GET /records/{namespace}/{name}", s.answer(s.get))
	mux.HandleFunc("PUT /records/{namespace}/{name}", s.answer(s.put))
	mux.HandleFunc("DELETE /records/{namespace}/{name}", s.answer(s.remove))
	s.Server = httptest.NewServer(mux)
	go func() {
		for change := range s.changes {
			content, _ := json.Marshal(change)
			if url := hook(); url != "" {
				if response, err := http.Post(url+"/records", "application/json", bytes.NewReader(content)); err == nil {
					response.Body.Close()
				}
			}
		}
	}()
	return s
}

func (s *service) close() {
	s.be(well)
	s.release()
	s.Server.Close()
	close(s.changes)
}

func (s *service) be(m mood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood = m
}

// hold has GETs that come from now on wait with their answer, until release.
func (s *service) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = make(chan struct{})
}

func (s *service) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		close(s.held)
		s.held = nil
	}
}

// answer makes a handler of what reads or changes records, which is called under the lock.
func (s *service) answer(handle func(r *http.Request) (any, int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		mood, held := s.mood, s.held
		var answer any
		status := http.StatusInternalServerError
		if mood == well {
			answer, status = handle(r)
		}
		if r.Method == http.MethodGet {
			if s.gets++; held != nil {
				s.holding++
			}
		}
		s.mu.Unlock()
		switch {
		case mood == hanging:
			_, _ = io.Copy(io.Discard, r.Body) // or nobody notices that the client has gone
			<-r.Context().Done()
		case mood == garbled:
			fmt.Fprint(w, `{"sorry": `)
			return
		case r.Method == http.MethodGet && held != nil:
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (s *service) list(*http.Request) (any, int) {
	all := []record{}
	for _, r := range s.records {
		all = append(all, r)
	}
	return all, http.StatusOK
}

func keyIn(r *http.Request) trc.Key {
	return trc.Key{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
}

func (s *service) get(r *http.Request) (any, int) {
	found, ok := s.records[keyIn(r)]
	if !ok {
		return nil, http.StatusNotFound
	}
	return found, http.StatusOK
}

func (s *service) put(r *http.Request) (any, int) {
	var wanted record
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		return err.Error(), http.StatusBadRequest
	}
	s.puts[keyIn(r)]++
	return s.store(keyIn(r), wanted.HTML), http.StatusOK
}

func (s *service) store(page trc.Key, html string) record {
	s.version++
	written := record{Page: page, HTML: html, URL: "https://pages.example.com/" + page.String(), Version: s.version}
	s.records[page] = written
	s.changes <- written
	return written
}

func (s *service) remove(r *http.Request) (any, int) {
	if _, ok := s.records[keyIn(r)]; !ok {
		return nil, http.StatusNotFound
	}
	s.drop(keyIn(r))
	return nil, http.StatusOK
}

func (s *service) drop(page trc.Key) {
	s.version++
	delete(s.records, page)
	s.changes <- record{Page: page, Gone: true, Version: s.version}
}

// change and lose are what others do with the records.
func (s *service) change(page trc.Key, html string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(page, html)
}

func (s *service) lose(page trc.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(page)
}

// html is what is published of a page, and puts how often that was written by an operator.
func (s *service) html(page trc.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[page].HTML
}

func (s *service) putsOf(page trc.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts[page]
}

func (s *service) counts() (gets, holding int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets, s.holding
}
