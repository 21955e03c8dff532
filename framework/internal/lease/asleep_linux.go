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

// asleep returns for how long the machine has been suspended since it was started. The clock that
// Go uses stands still then, the clocks of other machines do not. It returns 0 if the time is not
// known.
func asleep() time.Duration {
	var longest time.Duration
	for range 3 { // a pause between the readings of the clocks hides some of the sleep
		boot, ok := clock(clockBoottime)
		awake, also := clock(clockMonotonic)
		if !ok || !also {
			return 0
		}
		longest = max(longest, boot-awake)
	}
	return longest
}

// clock reads a clock of Linux, and reports whether that succeeded.
func clock(id uintptr) (time.Duration, bool) {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0)
	return time.Duration(now.Nano()), failed == 0
}
