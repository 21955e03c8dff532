//go:build !linux

package framework

import "time"

// asleep cannot be told here.
func asleep() time.Duration { return 0 }
