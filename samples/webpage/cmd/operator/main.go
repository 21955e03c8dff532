// Command operator runs the WebPage operator: see package framework/cmd for its arguments.
package main

import (
	"github.com/evenkeel/evenkeel/framework/cmd"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

func main() {
	cmd.Main("webpage-operator", cmd.Part{AddToScheme: v1.AddToScheme, Register: webpage.Register})
}
