package run

import (
	"sync/atomic"
	"time"
)

// seldomEvery is how often something may be said that every run could say.
const seldomEvery = time.Minute

// seldom lets something be said once in a minute. The zero value has said nothing.
type seldom struct {
	last atomic.Int64 // in Unix nanoseconds; 0 for never
}

// may reports whether it is time to say it, which counts as saying it.
func (s *seldom) may() bool {
	now, last := time.Now().UnixNano(), s.last.Load()
	return (last == 0 || now-last >= int64(seldomEvery)) && s.last.CompareAndSwap(last, now)
}
