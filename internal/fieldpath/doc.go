// Package fieldpath names the fields in which two versions of an object differ, for people and for
// package contest.
//
//	for _, c := range fieldpath.Changes(old, new, 100) { fmt.Println(c.Path) } // spec.replicas
//
// A path is written as in kubectl explain: spec.template.spec.containers[0].image. A key that is no
// plain word is in brackets: metadata.labels[example.com/app]. Lists are compared element by
// element if they have the same length; otherwise the list itself is the field that differs.
//
// # Concurrency
//
// Functions only read the objects.
//
// # What it does not do
//
// It does not know schemas: an element that moves in a list is a change of all elements between.
// What the API server counts itself is left out: resourceVersion, generation, managedFields.
package fieldpath
