package prefixedpod_test

import (
	"os"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// The second of client-go's handlers slows errors down by the time since the last one in the whole process:
	// between one bubble of virtual time and another, or none, that is years.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	os.Exit(m.Run())
}
