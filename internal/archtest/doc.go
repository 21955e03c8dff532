// Package archtest holds the architecture as a test: which package may import what, and why.
package archtest
