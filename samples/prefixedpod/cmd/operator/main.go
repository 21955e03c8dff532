// Command operator runs the PrefixedPod operator: see package framework/cmd for its arguments.
package main

import (
	"github.com/evenkeel/evenkeel/framework/cmd"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

func main() {
	cmd.Main("prefixedpod-operator", cmd.Part{AddToScheme: v1.AddToScheme, Register: prefixedpod.Register})
}
