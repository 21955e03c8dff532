package clusterstest

import (
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// witness notes what the runs read of the copies, and what of that must not be.
type witness struct {
	mu       sync.Mutex // guards below
	seen     map[trc.Key]*sighting
	problems []string
}

// sighting is what was read of a copy so far.
type sighting struct {
	uid     types.UID // of the last one that was read
	version uint64
	foreign string // what others wrote into it
	gone    map[types.UID]bool
	runs    int
}

func newWitness() *witness { return &witness{seen: map[trc.Key]*sighting{}} }

func (w *witness) ofLocked(key trc.Key) *sighting {
	s := w.seen[key]
	if s == nil {
		s = &sighting{gone: map[types.UID]bool{}}
		w.seen[key] = s
	}
	return s
}

// read takes in what a run read, nil for nothing.
func (w *witness) read(key trc.Key, o *corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.ofLocked(key)
	if o == nil || o.UID != s.uid {
		if s.uid != "" {
			s.gone[s.uid] = true
		}
		s.uid, s.version, s.foreign = "", 0, ""
	}
	if o == nil {
		return
	}
	version := w.versionLocked(o)
	if s.gone[o.UID] {
		w.problems = append(w.problems, fmt.Sprintf("G03: %s: %s was gone and is read again", key, o.UID))
	}
	if version < s.version {
		w.problems = append(w.problems, fmt.Sprintf("G02: %s: version %d is read after %d", key, version, s.version))
	}
	s.uid, s.version, s.foreign = o.UID, version, o.Data["foreign"]
}

// wrote takes in the answer to a write, and what was read after it.
func (w *witness) wrote(key trc.Key, stored, read *corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case read == nil: // others may have deleted it
	case read.UID == stored.UID && w.versionLocked(read) < w.versionLocked(stored):
		w.problems = append(w.problems, fmt.Sprintf("G01: %s: version %s is read after writing %s", key, read.ResourceVersion, stored.ResourceVersion))
	}
}

func (w *witness) versionLocked(o *corev1.ConfigMap) uint64 {
	version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		w.problems = append(w.problems, err.Error())
	}
	return version
}

func (w *witness) ran(key trc.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ofLocked(key).runs++
}

// saw is what others wrote into a copy, as a run saw it last, and how many runs there were.
func (w *witness) saw(key trc.Key) (foreign string, runs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.ofLocked(key)
	return s.foreign, s.runs
}

// forget is for when the server itself forgets.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = map[trc.Key]*sighting{}
}

func (w *witness) takeProblems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	problems := w.problems
	w.problems = nil
	return problems
}
