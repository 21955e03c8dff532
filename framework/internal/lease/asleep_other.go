//go:build !linux

package lease

import "time"

// asleep returns 0: the time is not known on this platform.
func asleep() time.Duration { return 0 }
