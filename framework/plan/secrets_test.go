package plan_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/evenkeel/evenkeel/framework/plan"
)

// keepsSecrets checks that no form of a report has a Secret's value.
func (w *world) keepsSecrets(report *plan.Report) {
	w.Helper()
	asJSON, err := json.Marshal(report)
	noError(w, err)
	encoded := base64.StdEncoding.EncodeToString([]byte(secretValue))[:12]
	for _, text := range []string{report.String(), string(asJSON)} {
		for _, value := range []string{secretValue, encoded} {
			if strings.Contains(text, value) {
				w.Errorf("a report has the value of a Secret:\n%s", text)
			}
		}
	}
}
