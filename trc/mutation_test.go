package trc_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trc"
)

// TestG17_ObjectThatIsChangedInTheCacheEndsTheProcess runs itself as another process, because
// client-go reads the environment when it is loaded, and because its detector panics in its own
// goroutine.
func TestG17_ObjectThatIsChangedInTheCacheEndsTheProcess(t *testing.T) {
	if how := os.Getenv("EVENKEEL_CHANGE"); how != "" {
		changeWhatIsCached(t, how)
		return
	}
	for how, panics := range map[string]bool{"listed": true, "watched": true, "answered": true, "nothing": false} {
		t.Run(how, func(t *testing.T) {
			again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.timeout=60s")
			again.Env = append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=true", "EVENKEEL_CHANGE="+how)
			output, err := again.CombinedOutput()
			if panicked := strings.Contains(string(output), "cache configmaps modified"); panicked != panics || (err != nil) != panics {
				t.Errorf("panicked: %v, %v\n%s", panicked, err, output)
			}
		})
	}
}

// changeWhatIsCached changes one object in the cache, or none, and lets the detector have the look
// that it has even at a store without watches.
func changeWhatIsCached(t *testing.T, how string) {
	s := trc.NewStore(trc.Options{Name: "configmaps"})
	w := s.AddWatch("ns")
	for _, err := range []error{
		w.Replace(items(objects(managed(object("listed", "u1@5")))), "10"),
		w.Add(managed(object("watched", "u2@11"))),
		s.Acknowledge(managed(object("answered", "u3@12")), trc.Proof{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if o := s.Get(key(how)); o != nil {
		o.SetLabels(map[string]string{"changed": "yes"})
	}
	s.Run(t.Context())
}
