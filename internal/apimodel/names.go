package apimodel

// generateName returns the nth generated name. As on a server, the order of names is not that of
// their creation. No two of 27^5 have the same suffix, and two runs in virtual time get the same
// names.
func generateName(base string, n int) string {
	const (
		alphabet = "bcdfghjklmnpqrstvwxz2456789" // that of k8s.io/apimachinery/pkg/util/rand
		longest  = 63 - 5
		size     = 27 * 27 * 27 * 27 * 27
		// factor is about size / 1.618, so that no four names in a row are sorted. It is no multiple of
		// 3, so that all suffixes come before the first one does again.
		factor = 8868112
	)
	var suffix [5]byte
	left := n * factor % size
	for i := range suffix {
		suffix[len(suffix)-1-i] = alphabet[left%len(alphabet)]
		left /= len(alphabet)
	}
	return base[:min(len(base), longest)] + string(suffix[:])
}
