package framework

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// maxName is what the API server grants a generated name.
const maxName = 63

// StableName returns base with a suffix of ten characters that follows from the owner's UID and the intent:
// the same name for the same object on every attempt, also after a crash, and another one for another
// owner or intent. A create with it meets its own earlier one, as "already exists". A base that is too
// long for 63 characters is cut.
func StableName(base string, owner Object, intent ...string) string {
	const suffix = 10
	sum := sha256.Sum256([]byte(string(owner.GetUID()) + "\x00" + strings.Join(intent, "\x00")))
	encoded := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	return base[:min(len(base), maxName-suffix)] + encoded[:suffix]
}
