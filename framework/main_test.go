package framework_test

import (
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

func TestMain(m *testing.M) {
	if given := os.Getenv(instanceVariable); given != "" {
		os.Exit(beInstance(given))
	}
	os.Exit(apimodel.RunTests(m))
}
