package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// result is how a mutant was killed, or that a suite has passed without one.
type result struct {
	// Name is the mutant's, or the suite's as suite.entry returns it.
	Name string `json:"name"`
	// Hash is that of everything that decides the result.
	Hash string `json:"hash"`
	// Killer is the test that noticed the mutant; empty for a suite.
	Killer string `json:"killer"`
	// Seconds are how long that took, without the compilation of suites that all mutants share.
	Seconds float64 `json:"seconds"`
}

// keptFile holds results of earlier runs, one a line. Only successes are kept. Its methods are safe
// for concurrent use, by several processes, too. A process that is killed loses no result that keep
// has stored.
type keptFile string

// load returns the results by their names. The file need not exist; a line that is no result is
// skipped.
func (k keptFile) load() (map[string]result, error) {
	content, err := os.ReadFile(string(k))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := map[string]result{}
	for line := range bytes.Lines(content) {
		var r result
		if json.Unmarshal(line, &r) == nil && r.Name != "" {
			found[r.Name] = r
		}
	}
	return found, nil
}

// keep stores a result in place of the one with its name.
func (k keptFile) keep(r result) error {
	return k.change(func(results map[string]result) { results[r.Name] = r })
}

// forget removes the result with a name.
func (k keptFile) forget(name string) error {
	return k.change(func(results map[string]result) { delete(results, name) })
}

// change replaces the file as a whole, so that it is never seen half written.
func (k keptFile) change(apply func(map[string]result)) (err error) {
	if err := os.MkdirAll(filepath.Dir(string(k)), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(string(k) + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which also unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	results, err := k.load()
	if err != nil {
		return err
	}
	apply(results)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, name := range slices.Sorted(maps.Keys(results)) {
		if err := encoder.Encode(results[name]); err != nil {
			return err
		}
	}
	if err := os.WriteFile(string(k)+".new", lines.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(string(k)+".new", string(k))
}

func TestResultsAreKeptOneALine(t *testing.T) {
	k := keptFile(filepath.Join(t.TempDir(), "bin", "mutants.json"))
	if found, err := k.load(); err != nil || len(found) != 0 {
		t.Fatalf("without a file: %v, %v", found, err)
	}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			if err := k.keep(result{Name: fmt.Sprintf("mutant %d", i), Hash: "a", Killer: "trc: TestG<1>", Seconds: 1.5}); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if err := errors.Join(k.keep(result{Name: "mutant 0", Hash: "b"}), k.forget("mutant 1"), k.forget("never kept")); err != nil {
		t.Fatal(err)
	}
	found, err := k.load()
	if err != nil || len(found) != 7 || found["mutant 0"].Hash != "b" || found["mutant 7"].Killer != "trc: TestG<1>" {
		t.Errorf("kept %v, %v", found, err)
	}
	content, err := os.ReadFile(string(k))
	if want := `{"name":"mutant 0","hash":"b","killer":"","seconds":0}` + "\n"; err != nil || bytes.Count(content, []byte("\n")) != 7 || !bytes.HasPrefix(content, []byte(want)) {
		t.Errorf("got %v\n%s", err, content)
	}
}

func TestALineThatIsNoResultIsSkipped(t *testing.T) {
	k := keptFile(filepath.Join(t.TempDir(), "mutants.json"))
	if err := os.WriteFile(string(k), []byte(`{"name":"a","hash":"1"}`+"\n\n{}\n"+`{"name":"b","ha`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.keep(result{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	if found, err := k.load(); err != nil || !slices.Equal(slices.Sorted(maps.Keys(found)), []string{"a", "c"}) {
		t.Errorf("kept %v, %v", found, err)
	}
}
