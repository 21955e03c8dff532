// Package canon writes the objects of an API server in a form by which two lives of an operator can
// be compared: without versions, UIDs, times of the status, field managers and random suffixes of
// names.
//
//	before := canon.Of(objects, canon.NewNames(objects, canon.Options{}))
//	for _, line := range canon.Difference(before, after) { ... }
//
// # What counts as equal
//
//   - resourceVersion, uid, generation, creationTimestamp and managedFields do not count. An
//     observedGeneration counts as "current" or by how far it is behind.
//   - A UID in any text or name does not count. Where it is that of another object, the object
//     counts. The first eight digits of such a UID, as a word, are treated so, too.
//   - A text that is a resourceVersion which an object had counts as that object's version.
//   - A name that the API server or the framework has made of generateName counts without its
//     suffix, also where others mention it, as the key of a map, or as a part of their own names.
//     Among several such objects with different contents, it counts which one is mentioned.
//   - The hash of a rollout does not count, in the names of ReplicaSets and Pods and elsewhere.
//   - The namespace of a story does not count where it is a word.
//   - The data of Secrets is compared decoded.
//   - Addresses, nodes of Pods, node ports and volumes that the cluster assigns count as being
//     there. One that somebody else set, by managedFields, counts.
//   - A name that ends in a hash, and that one of two states lacks, counts without the hash if the
//     states are equal then: the hash may follow from a UID. A word of ten letters is no hash.
//   - Which instance of an operator wrote down a gate of the interlock does not count.
//   - Times in the status do not count. Times anywhere else do: a clock in the desired state makes
//     an operator write for ever.
//   - Lists whose items all have a type, uid, name or key count as sets, so list-maps count as
//     maps. All other lists count with their order, but finalizers. So does initContainers.
//
// # Concurrency
//
// The functions may be called by several goroutines. They do not change objects.
package canon
