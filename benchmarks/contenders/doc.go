// Package contenders does the work of package work in several ways, each as its own documentation
// recommends, and measures one of them:
//
//	contender, err := contenders.Named("evenkeel")
//	result, err := contenders.Measure(ctx, contender, config, contenders.Task{Namespace: "a", Objects: 1000, Workers: 16})
//
// [Measure] reads what the operating system charges the whole process. Whoever compares therefore
// measures in a process of its own for each, as cmd/compare does.
//
// # Concurrency
//
// One measurement at a time in a process. Contenders call a [Tally] from all their workers.
//
// # What it does not do
//
// It neither makes the objects nor checks what became of them: package work does.
package contenders
