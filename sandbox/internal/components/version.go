package components

import (
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// Kubernetes takes its version from these variables, which its release scripts
// set with linker flags. `go run module@version` cannot pass linker flags, so they
// are set here, from what the build itself knows. Without them /version would say
// v0.0.0-master+$Format:%H$, and clients that compare versions would refuse it.

//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

//go:linkname gitMajor k8s.io/component-base/version.gitMajor
var gitMajor string

//go:linkname gitMinor k8s.io/component-base/version.gitMinor
var gitMinor string

//go:linkname gitTreeState k8s.io/component-base/version.gitTreeState
var gitTreeState string

// setKubernetesVersion makes the components report the version of the
// k8s.io/kubernetes module they were built from. A binary without build
// information keeps upstream's placeholder.
func setKubernetesVersion() {
	v := kubernetesVersion()
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) != 3 {
		return
	}
	gitVersion, gitMajor, gitMinor, gitTreeState = v, parts[0], parts[1], "clean"
	// The reported version was copied from gitVersion before main began.
	if err := version.SetDynamicVersion(v); err != nil {
		panic("components: set the Kubernetes version " + v + ": " + err.Error())
	}
}

func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version
		}
	}
	return ""
}
