package run

import "sync"

// perRun holds the author's values of one run. The zero value is ready for use. It is safe for
// concurrent use.
type perRun struct {
	mu   sync.Mutex // guards kept; a leaf
	kept map[any]any
}

// Get returns the value of a key. It calls create the first time, with the lock held: create must
// not call Get.
func (v *perRun) Get(key any, create func() any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.kept[key]; ok {
		return known
	}
	if v.kept == nil {
		v.kept = map[any]any{}
	}
	made := create()
	v.kept[key] = made
	return made
}
