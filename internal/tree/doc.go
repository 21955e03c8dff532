// Package tree reads the packages of this module with their types, and gives the go command changed
// versions of their files. Nothing in the tree is modified. Tests about the source code use it.
//
//	all, err := tree.Decode[listed](printed)   // by go list -json
//	packages, err := tree.List(root, "./...")
//	checked, err := packages.Check("trc", nil) // syntax trees and types
//	overlay, err := tree.Overlay(root, t.TempDir(), map[string][]byte{"trc/store.go": changed})
//	exec.Command("go", "test", "-overlay="+overlay, "./trc")
//
// Imports are read from the compiled form of packages, which the go command keeps in its cache. So
// only the packages that a caller asks for are parsed.
//
// # Concurrency
//
// The functions may be called at any time. Packages must be used from one goroutine at a time.
package tree
