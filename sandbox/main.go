package main

import _ "github.com/evenkeel/evenkeel/sandbox/internal/components"

func main() {}
