package tracing_test

import (
	"os"
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

func TestMain(m *testing.M) { os.Exit(apimodel.RunTests(m)) }
