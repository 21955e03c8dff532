package lease

import (
	"syscall"
	"time"
	"unsafe"
)

// Clocks of Linux; see clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// asleep is for how long the machine has been suspended since it was started: the clock that Go measures time with stands
// still then, and the one of other machines does not. It is 0 where that cannot be told.
func asleep() time.Duration {
	var longest time.Duration
	for range 3 { // the clocks are not read at one time: a pause in between hides some of the sleep
		boot, ok := clock(clockBoottime)
		awake, also := clock(clockMonotonic)
		if !ok || !also {
			return 0
		}
		longest = max(longest, boot-awake)
	}
	return longest
}

func clock(id uintptr) (time.Duration, bool) {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano()), failed == 0
}
