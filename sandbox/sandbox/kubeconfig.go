package sandbox

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
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
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: kubeconfig %s: %w", file, errors.Unwrap(err))
	}
	if len(content) > 0 && !bytes.Contains(content, []byte("current-context: "+kubeconfigName+"\n")) {
		return fmt.Errorf("sandbox: kubeconfig %s: the file exists and is not a sandbox's; name another", file)
	}
	return nil
}

// numbered returns the name that belongs to the kube-apiserver with the number
// (from 1): the first has the bare name, the others have it appended.
func numbered(name string, number int) string {
	if number == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, number)
}
