package sandbox

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// kubeconfigName is the name of cluster, user and context in our kubeconfigs, by
// which we know them again.
const kubeconfigName = "evenkeel-sandbox"

// kubeconfig returns a self-contained kubeconfig, as YAML.
func kubeconfig(server string, ca []byte, client pair) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[1]s
clusters:
- name: %[1]s
  cluster:
    server: %[2]s
    certificate-authority-data: %[3]s
users:
- name: %[1]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
`, kubeconfigName, server, b64(ca), b64(client.cert), b64(client.key))
}

// checkKubeconfigFile refuses to overwrite a kubeconfig that somebody may need.
func checkKubeconfigFile(file string) error {
	if strings.ContainsRune(file, filepath.ListSeparator) {
		return fmt.Errorf("sandbox: kubeconfig %s: must not contain %q, which separates the files in KUBECONFIG", file, filepath.ListSeparator)
	}
	info, err := os.Lstat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err))
	}
	// It is removed at the end: /dev/null must survive that, and what a link leads to
	// would not be found.
	if !info.Mode().IsRegular() {
		return fmt.Errorf("sandbox: kubeconfig %s: exists and is not a regular file; name another", file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err))
	}
	if len(content) > 0 && !bytes.Contains(content, []byte("current-context: "+kubeconfigName+"\n")) {
		return fmt.Errorf("sandbox: kubeconfig %s: the file exists and is not a sandbox's; name another", file)
	}
	return nil
}

// createKubeconfig writes the file and locks it, so that no other control plane takes
// it over while this one runs. The caller closes it to unlock it.
//
// It replaces a file that is there: others may have been allowed to read that, and
// whoever has it open could read what is written into it now.
func createKubeconfig(file string, content []byte) (*os.File, error) {
	old, err := lockKubeconfig(file)
	if err != nil {
		return nil, fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err))
	}
	defer old.Close() // unlocks what has been replaced
	if err := os.Remove(file); err != nil {
		return nil, fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err))
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err))
	}
	if err := lockNow(f); err != nil { // it is another one's by now
		return nil, errors.Join(fmt.Errorf("sandbox: kubeconfig %s: %w", file, err), f.Close())
	}
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(fmt.Errorf("sandbox: kubeconfig %s: %w", file, pathCause(err)), os.Remove(file), f.Close())
	}
	return f, nil
}

var errKubeconfigInUse = errors.New("another control plane uses it; name another")

func lockNow(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errKubeconfigInUse
	}
	return err
}

// lockKubeconfig locks the file, which it creates if it is missing.
func lockKubeconfig(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = lockNow(f)
	// Another control plane may have replaced it, or removed it, since we opened it.
	if locked, statErr := f.Stat(); err == nil {
		there, lstatErr := os.Lstat(file)
		err = statErr
		if err == nil && (lstatErr != nil || !os.SameFile(locked, there)) {
			err = errKubeconfigInUse
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// numbered returns the name that belongs to the kube-apiserver with the number
// (from 1): the first has the bare name, the others have it appended.
func numbered(name string, number int) string {
	if number == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, number)
}
