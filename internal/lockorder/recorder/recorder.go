package recorder

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// File is the environment variable that names the file to which edges are appended. Nothing is
// written without it.
const File = "EVENKEEL_LOCK_EDGES"

// Edge says that a lock was taken while another one was held.
type Edge struct {
	// Held and Taken are the classes of the locks.
	Held, Taken string
	// Tried reports that the lock was taken by TryLock, which does not wait.
	Tried bool
}

// String returns the edge for people.
func (e Edge) String() string {
	if e.Tried {
		return e.Held + " → " + e.Taken + " (tried)"
	}
	return e.Held + " → " + e.Taken
}

// Seen is an edge with an example: where the lock that was held had been taken, and where the other
// one was taken.
type Seen struct {
	Edge
	HeldAt, TakenAt string
}

// line returns the line of the file.
func (s Seen) line() string {
	return strings.Join([]string{s.Held, s.Taken, strconv.FormatBool(s.Tried), s.HeldAt, s.TakenAt}, "\t")
}

// Parse returns the edges of a file.
func Parse(content []byte) ([]Seen, error) {
	var all []Seen
	for line := range strings.Lines(string(content)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(parts) != 5 {
			return nil, fmt.Errorf("recorder: %q is no edge", line)
		}
		all = append(all, Seen{Edge{parts[0], parts[1], parts[2] == "true"}, parts[3], parts[4]})
	}
	return all, nil
}

// hold is a lock that a goroutine holds.
type hold struct {
	lock      uintptr
	class, at string
}

// recorder keeps what goroutines hold, and the edges.
type recorder struct {
	mu      sync.Mutex         // guards the fields below
	holds   map[uintptr][]hold // by goroutine
	classes map[uintptr]string // of the locks whose address was taken
	edges   map[Edge]bool
	write   func(Seen)
}

var global = newRecorder(appendTo(os.Getenv(File)))

func newRecorder(write func(Seen)) *recorder {
	return &recorder{holds: map[uintptr][]hold{}, classes: map[uintptr]string{}, edges: map[Edge]bool{}, write: write}
}

// appendTo returns a function that appends edges to a file.
func appendTo(name string) func(Seen) {
	if name == "" {
		return func(Seen) {}
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return func(s Seen) {
		if _, err := file.WriteString(s.line() + "\n"); err != nil { // one write: other processes append, too
			panic(err)
		}
	}
}

// pointer begins the class of an expression that is a pointer to a lock elsewhere.
const pointer = "*"

// address identifies a lock while it is held. It does not keep what contains the lock in memory.
func address(lock any) uintptr { return reflect.ValueOf(lock).Pointer() }

// classOfLocked returns the class of a lock. If it was reached through a pointer, that is the class
// under which its address was last taken.
func (r *recorder) classOfLocked(lock uintptr, class string) string {
	if !strings.HasPrefix(class, pointer) {
		return class
	}
	return cmp.Or(r.classes[lock], class)
}

// wants records that the goroutine is about to take a lock.
func (r *recorder) wants(lock uintptr, class, at string, tried bool) {
	of := current()
	r.mu.Lock()
	defer r.mu.Unlock()
	class = r.classOfLocked(lock, class)
	for _, h := range r.holds[of] {
		if e := (Edge{h.class, class, tried}); !r.edges[e] {
			r.edges[e] = true
			r.write(Seen{e, h.at, at})
		}
	}
}

// takes records that the goroutine holds a lock.
func (r *recorder) takes(lock uintptr, class, at string) {
	of := current()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds[of] = append(r.holds[of], hold{lock, r.classOfLocked(lock, class), at})
}

// releases records that a lock is released, and returns how it was held. It reports false if nobody
// held it.
func (r *recorder) releases(lock uintptr) (hold, bool) {
	of := current()
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.releaseLocked(of, lock); ok {
		return h, true
	}
	for other := range r.holds {
		if h, ok := r.releaseLocked(other, lock); ok {
			return h, true
		}
	}
	return hold{}, false
}

func (r *recorder) releaseLocked(of, lock uintptr) (hold, bool) {
	held := r.holds[of]
	for i, h := range slices.Backward(held) {
		if h.lock != lock {
			continue
		}
		if held = slices.Delete(held, i, i+1); len(held) == 0 {
			delete(r.holds, of)
		} else {
			r.holds[of] = held
		}
		return h, true
	}
	return hold{}, false
}

// taking returns a function that takes a lock and records it.
func taking(lock any, class, at string, take func()) func() {
	of := address(lock)
	return func() {
		global.wants(of, class, at, false)
		take()
		global.takes(of, class, at)
	}
}

// trying returns a function that tries to take a lock and records it if it did.
func trying(lock any, class, at string, take func() bool) func() bool {
	of := address(lock)
	return func() bool {
		taken := take()
		if taken {
			global.wants(of, class, at, true)
			global.takes(of, class, at)
		}
		return taken
	}
}

// releasing returns a function that releases a lock and records it. It is recorded first: the next
// holder may be another goroutine, and is not to be mistaken for this one.
func releasing(lock any, release func()) func() {
	of := address(lock)
	return func() {
		global.releases(of)
		release()
	}
}
