package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// leave makes a folder as a control plane does, with a kubeconfig outside of it, and returns what
// keeps it.
func leave(t *testing.T, temporary, name string) (folder, kubeconfigFile string, owned *os.File) {
	t.Helper()
	draft := filepath.Join(temporary, draftPrefix+workPrefix+name)
	folder = filepath.Join(temporary, workPrefix+name)
	owned, err := makeOwned(draft)
	if err == nil {
		err = os.Rename(draft, folder)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(folder, "state", "pki"), 0o700)
	}
	kubeconfigFile = filepath.Join(t.TempDir(), "kubeconfig")
	if err == nil {
		err = writeOwned(folder, []string{kubeconfigFile, filepath.Join(folder, "kubeconfig")})
	}
	if err == nil {
		err = os.WriteFile(kubeconfigFile, kubeconfig("https://127.0.0.1:1", nil, pair{}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owned.Close() }) // it may have been closed
	return folder, kubeconfigFile, owned
}

func there(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Lstat(path); (err == nil) != want {
		t.Errorf("%s: %v, want it to be there: %v", path, err, want)
	}
}

func TestWhatSomebodyOwnsIsNotCollected(t *testing.T) {
	temporary := t.TempDir()
	folder, file, owned := leave(t, temporary, "a")
	collect(temporary)
	there(t, folder, true)
	there(t, file, true)
	// A component that has outlived all others.
	component := exec.Command("sleep", "1000")
	component.ExtraFiles = []*os.File{owned}
	if err := component.Start(); err != nil {
		t.Fatal(err)
	}
	if err := owned.Close(); err != nil {
		t.Fatal(err)
	}
	collect(temporary)
	there(t, folder, true)
	there(t, file, true)
	if err := component.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = component.Wait() // it was killed
	collect(temporary)
	there(t, folder, false)
	there(t, file, false)
}

func TestWhatIsNotOursIsNotCollected(t *testing.T) {
	temporary, elsewhere := t.TempDir(), t.TempDir()
	precious := filepath.Join(elsewhere, "precious")
	if err := os.WriteFile(precious, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(temporary, workPrefix+"without-the-file") // of an earlier version, or anybody's
	linked := filepath.Join(temporary, workPrefix+"linked")
	file := filepath.Join(temporary, workPrefix+"file")
	draft := filepath.Join(temporary, draftPrefix+workPrefix+"young")
	full := filepath.Join(temporary, draftPrefix+workPrefix+"full")
	old := filepath.Join(temporary, draftPrefix+workPrefix+"old")
	others, _, owned := leave(t, temporary, "others")
	for _, folder := range []string{named, draft, old, filepath.Join(full, "sub")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-2 * draftAge)
	for _, err := range []error{
		os.Symlink(elsewhere, linked), os.WriteFile(file, nil, 0o600), owned.Close(),
		os.Chtimes(full, long, long), os.Chtimes(old, long, long),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The link leads to what looks like a folder that nobody owns.
	if err := os.WriteFile(filepath.Join(elsewhere, ownedFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(others, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	collect(temporary)
	for _, path := range []string{named, linked, file, draft, full, precious} {
		there(t, path, true)
	}
	there(t, others, os.Getuid() == 0)
	there(t, old, false)
}

func TestAKubeconfigThatIsAnothersIsNotCollected(t *testing.T) {
	temporary := t.TempDir()
	folder, file, owned := leave(t, temporary, "a")
	held, err := createKubeconfig(file, kubeconfig("https://127.0.0.1:2", nil, pair{}))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	second, edited, alsoOwned := leave(t, temporary, "b")
	if err := os.WriteFile(edited, []byte("current-context: production\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := owned.Close(); err != nil {
		t.Fatal(err)
	}
	if err := alsoOwned.Close(); err != nil {
		t.Fatal(err)
	}
	collect(temporary)
	there(t, folder, false)
	there(t, second, false)
	there(t, file, true)
	there(t, edited, true)
}
