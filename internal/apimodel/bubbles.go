package apimodel

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// RunTests is what the TestMain of a package with more than one bubble calls, with its *testing.M;
// it returns the exit code. The second of client-go's error handlers, which it takes away, slows
// errors down by the time since the last one in the whole process: between one bubble of virtual
// time and another, or none, that is years.
func RunTests(m interface{ Run() int }) int {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	return m.Run()
}
