// Package observe has the interfaces by which metrics, traces and others learn what an operator
// does. An author passes observers in framework.OperatorOptions.Observers:
//
//	metrics := prometheus.New()
//	op, err := framework.NewOperator(config, framework.OperatorOptions{
//		Observers: []observe.Observer{metrics},
//	})
//
// What an operator is doing now, and what it holds, is not told but asked for: see
// framework.Operator.Occupancy and Health.
//
// # Concurrency
//
// Observers are called from many goroutines.
//
// # What it does not do
//
// It has no queue: an observer that takes long delays the runs of its primary. An operator without
// observers pays nothing for them.
package observe
