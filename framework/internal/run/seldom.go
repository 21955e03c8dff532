package run

import (
	"sync/atomic"
	"time"
)

// seldomEvery is the shortest time between two log lines that every run could write.
const seldomEvery = time.Minute

// seldom limits a log line to one per minute. The zero value allows the first line at once.
type seldom struct {
	last atomic.Int64 // in Unix nanoseconds; 0 for never
}

// may reports whether the line may be written now, and starts the next minute if so.
func (s *seldom) may() bool {
	now, last := time.Now().UnixNano(), s.last.Load()
	return (last == 0 || now-last >= int64(seldomEvery)) && s.last.CompareAndSwap(last, now)
}
