package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// notForUsers are modules that our tests once needed: what go.mod requires is in the module graph of
// every user. See docs/design/0021-users-modules.md.
var notForUsers = []string{"sigs.k8s.io/controller-runtime", "go.etcd.io/", "google.golang.org/grpc", "github.com/chromedp/"}

func TestUsersDoNotTakeOverTheToolsOfTests(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := 0
	for line := range strings.Lines(string(content)) {
		path, isRequired := strings.CutPrefix(line, "\t")
		if !isRequired {
			continue
		}
		required++
		for _, unwanted := range notForUsers {
			if strings.HasPrefix(path, unwanted) {
				t.Errorf("go.mod requires %s: replace it in the tests, or use it in benchmarks/", strings.TrimSpace(path))
			}
		}
	}
	if required < 10 {
		t.Errorf("only %d requirements found: the test reads go.mod wrongly", required)
	}
}
