// Package config embeds the manifests of the WebPage sample, for programs that install them. People
// apply the files.
package config

import "embed"

// Files are crd/bases, rbac and samples. The CustomResourceDefinitions and the ClusterRole are
// generated: make manifests.
//
//go:embed crd/bases/*.yaml rbac/*.yaml samples/*.yaml
var Files embed.FS
