package lease

import "sync"

// Values keeps values of a term by key. The zero value is ready for use. It is safe for concurrent
// use.
type Values struct{ kept sync.Map }

// Get returns the value of a key. It calls create the first time, and may call it once more than
// needed.
func (v *Values) Get(key any, create func() any) any {
	if known, ok := v.kept.Load(key); ok {
		return known
	}
	made, _ := v.kept.LoadOrStore(key, create())
	return made
}
