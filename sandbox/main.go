package main

import (
	"os"

	"github.com/evenkeel/evenkeel/sandbox/internal/cli"
	"github.com/evenkeel/evenkeel/sandbox/internal/components"
)

func main() {
	os.Exit(cli.Main(os.Args, cli.Components{Known: components.Known, Run: components.Run}))
}
