//go:build !race

package interlock

const raceEnabled = false
