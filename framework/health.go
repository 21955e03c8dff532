package framework

import (
	"fmt"
	"time"
)

// unbookmarkedSilence is how long a watch without bookmarks may be silent at least: the Reflector has the server
// end it after 5 to 10 minutes, and begins another.
const unbookmarkedSilence = 12 * time.Minute

// stale is an error that names a watch that has been silent for too long: its connection is dead, or the API
// server is, though nobody has said so (G18).
func (s *sharedStore) stale(after time.Duration) error {
	for _, silence := range s.Silences() {
		limit := after
		if !silence.Bookmarked {
			limit = max(limit, unbookmarkedSilence)
		}
		if silence.For > limit {
			return fmt.Errorf("nothing was heard of it for %v, more than %v", silence.For.Round(time.Second), limit)
		}
	}
	return nil
}
