package contest

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/fieldpath"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	// maxObjects is how many objects are followed at a time, maxFields how many fields of each, and
	// maxTimes how many times of each field.
	maxObjects = 256
	maxFields  = 64
	maxTimes   = 100
)

// Write is a write of a run, with what the caches showed.
type Write struct {
	By trc.Writer
	// Next is the place of a run that the write causes.
	Next Place
	// Manager is the field manager of the write, Other the one that wrote last before it, if known.
	Manager, Other string
	// Before and After are what a cache showed before the write and after it, in the same form. They
	// are nil if it showed nothing.
	Before, After trc.Object
	// Answer is the answer to the write, UID and Version are its. Version is empty if the write has
	// deleted the object.
	Answer  metav1.Object
	UID     types.UID
	Version string
}

// Fight is a fight over fields of an object that a write was part of.
type Fight struct {
	Fields []fieldpath.Change // that were set back often
	Times  int                // that the one that was set back most often was
	// Rival is the other writer, if it is a run of the same operator.
	Rival trc.Writer
	// Tell says that the fight was not told of for a while.
	Tell bool
}

// followed is an object in the eyes of one of its writers.
type followed struct {
	uid types.UID
	by  trc.Writer
}

// object is an object in which a writer found changes of others more than once.
type object struct {
	fields map[string]*field
	used   time.Time
	told   time.Time // when its fight was last told of
}

// field is a field that a writer has given a value though another had given it another one.
type field struct {
	value uint64      // what the writer gave it last, as a hash
	times []time.Time // when it was set back, the newest last; at most maxTimes
}

// Wrote records a write of a run, and returns the fight that it was part of, or nil. A write that
// changed nothing must not be recorded.
func (b *Book) Wrote(w Write) *Fight {
	at, rival := b.take(w)
	if at == nil {
		return nil
	}
	changes, _ := fieldpath.Changes(w.Before, w.After, maxFields) // without the lock, as objects may be large
	b.mu.Lock()
	defer b.mu.Unlock()
	at.used = time.Now()
	fight := b.compareLocked(at, changes, w, rival == w.By)
	if fight != nil {
		fight.Rival = rival
	}
	return fight
}

// Missed records that a run may have written a version of an object that nobody knows: the answer
// is lost, or says nothing of what was carried out. The next write of the object is compared with
// nothing.
func (b *Book) Missed(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, hash := b.findLocked(uid); s.uid == hash {
		*s = slot{}
	}
}

// take records the version of a write. It returns the object to compare, nil if there is nothing to
// be found, and the run that wrote what the write met, if one did.
func (b *Book) take(w Write) (at *object, rival trc.Writer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, hash := b.findLocked(w.UID)
	known := s.uid == hash
	if !known {
		*s = slot{uid: hash}
	}
	before := *s
	b.turn++
	s.turn = b.turn
	s.last = [2]writing{{maphash.String(b.seed, w.Version), w.By, w.Next}, s.last[0]}
	of := followed{w.UID, w.By}
	at = b.objects[of]
	if !known || w.Before == nil || w.After == nil || w.Before.GetUID() != w.UID || w.After.GetResourceVersion() != w.Version {
		if at != nil {
			clear(at.fields) // nobody knows what this write gave them
		}
		return nil, rival
	}
	if last := before.of(maphash.String(b.seed, w.Before.GetResourceVersion())); last != nil {
		rival = last.by
	}
	switch {
	case at != nil:
	case rival == w.By:
		return nil, rival
	default:
		at = b.followLocked(of)
	}
	return at, rival
}

// followLocked begins to follow an object. It drops the one that was not used for the longest time
// if there are too many.
func (b *Book) followLocked(of followed) *object {
	if b.objects == nil {
		b.objects = map[followed]*object{}
	}
	if len(b.objects) >= maxObjects {
		var oldest followed
		for other, at := range b.objects {
			if oldest.uid == "" || at.used.Before(b.objects[oldest].used) {
				oldest = other
			}
		}
		delete(b.objects, oldest)
	}
	at := &object{fields: map[string]*field{}}
	b.objects[of] = at
	return at
}

// compareLocked records what a write changed. alone says that it met what its writer had left.
func (b *Book) compareLocked(at *object, changes []fieldpath.Change, w Write, alone bool) *Fight {
	fight := &Fight{}
	for _, c := range changes {
		f, value := at.fields[c.Path], b.hashLocked(c.New)
		if alone {
			if f != nil {
				f.value = value
			}
			continue
		}
		switch {
		case f == nil && len(at.fields) == maxFields:
			continue
		case f == nil:
			f = &field{value: value} // it is not known what the writer gave it before: counted as set back
			at.fields[c.Path] = f
			f.setBack(at.used)
		case f.value != value:
			f.value, f.times = value, nil
		default:
			f.setBack(at.used)
		}
		// What a write removes is often a request that others make by adding it.
		if len(f.times) >= Enough && c.New != nil && owns(w.Answer.GetManagedFields(), w.Manager, c.Path, fieldpath.Content(w.After)) {
			fight.Fields = append(fight.Fields, c)
			fight.Times = max(fight.Times, len(f.times))
		}
	}
	if len(fight.Fields) == 0 {
		return nil
	}
	if fight.Tell = at.used.Sub(at.told) >= Window; fight.Tell {
		at.told = at.used
	}
	return fight
}

// setBack records that the writer gave the field the value that it had given it before.
func (f *field) setBack(now time.Time) {
	f.times = slices.DeleteFunc(f.times, func(t time.Time) bool { return now.Sub(t) > Window })
	if len(f.times) == maxTimes {
		f.times = slices.Delete(f.times, 0, 1)
	}
	f.times = append(f.times, now)
}

// hashLocked returns the hash of a value.
func (b *Book) hashLocked(value any) uint64 {
	text, err := json.Marshal(value)
	if err != nil {
		return 0
	}
	return maphash.Bytes(b.seed, text)
}
