// Package cli is the command line of the sandbox program.
//
//	os.Exit(cli.Main(os.Args, cli.Components{Known: components.Known, Run: components.Run}))
//
// What a command does is in the file of its name: up, assets, version. Everything
// about control planes is in package sandbox; here are only flags, the terminal,
// signals, and the user's command.
//
// # Concurrency
//
// [Main] is called once, by main.
//
// # What it does not do
//
// It does not import the components: main hands them in, so that this package and
// its tests do not compile Kubernetes.
//
// # Debugging
//
// Exit codes: 0 success; 1 a failure of ours; 2 bad usage; 126 and 127 the user's
// command cannot be run or found; 128+N ended by signal N; else the command's own.
package cli
