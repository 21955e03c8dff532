// Package plan shows what an operator would change on a cluster now. It changes nothing there:
//
//	report, err := plan.Run(ctx, config, options, webpage.Register, plan.Options{})
//	if err != nil {
//		return err
//	}
//	fmt.Print(report)
//	os.Exit(report.ExitCode())
//
// [Run] makes an operator of its own. Each primary that exists and that is due at the start has one
// run. All writes are sent as server-side dry runs, so defaults, validation and admission count.
// The answers are laid over what the operator reads, so a run reads what it would have written.
// [Report] has a diff of each object. It shows the keys of Secrets, never their values.
//
// # Concurrency
//
// Several plans may run at the same time, also beside the operator itself. A [Report] may be read
// by several goroutines.
//
// # What it does not do
//
//   - What others do in answer to a write is not simulated: no garbage collection, no rollouts, and
//     no runs of primaries that the plan itself would create.
//   - framework.Do, evictions, exec and other requests that are no write of an object are refused
//     and named in the report, and their run fails. Values outside of the cluster (package
//     external) are not changed, and named. Reads of them are made. Code of your own that changes
//     other systems must ask [IsPlan] itself.
//   - The server can try only one write of an object on what is stored. Further writes of the same
//     object are added up here, and the server tries the sum. A field that two managers have set to
//     the same value within the plan is taken for that of one. Conflicts of field managers that
//     only the plan brings about are not found. The status of an object that would be created, and
//     objects in a namespace that would be created, are not validated.
//   - Objects whose kind is served in several versions are known only in the version that was
//     written.
//   - Fields that only the server can choose, such as a Service's address, may differ from the
//     plan.
//   - API servers whose resource versions are not integers are not supported.
package plan
