package spectimes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
)

var _ = ReportAfterEach(Append)

var _ = Describe("The suite", func() {
	It("has a spec", func() {})
	PIt("has one that does not run", func() {})
})

func TestEachSpecThatRanIsALine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "times")
	t.Setenv(Variable, file)
	RunSpecs(t, "Spec times")
	content, err := os.ReadFile(file)
	if err != nil || strings.Count(string(content), "\n") != 1 {
		t.Fatalf("%v\n%s", err, content)
	}
	var got line
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if got.Suite != "internal/spectimes" || got.Spec != "The suite has a spec" || got.Seconds <= 0 || got.Seconds > 60 {
		t.Errorf("got %+v", got)
	}
}
