//go:build race

package interlock

const raceEnabled = true
