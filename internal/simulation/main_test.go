package simulation

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the worlds are small, and gone soon: collecting them costs more than keeping them
	os.Exit(apimodel.RunTests(m))
}
