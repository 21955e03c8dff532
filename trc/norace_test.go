//go:build !race

package trc_test

const raceEnabled = false
