package run

import "sync"

// perRun is what is kept for a run. The zero value is ready for use.
type perRun struct {
	mu   sync.Mutex // guards kept; a leaf
	kept map[any]any
}

// Get returns the value of a key, made by create the first time.
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
