//go:build race

package depth

const raced = true
