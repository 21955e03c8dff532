// Package config sets options of an operator at deployment that its author would otherwise have to
// compile in: timeouts, retries, numbers of workers, namespaces, leader election.
//
//	settings, err := config.Load(config.Args(os.Args[1:]), config.Env("WEBPAGE"),
//		config.File("/etc/webpage/config.yaml"))
//	options, err := settings.Operator(framework.OperatorOptions{Scheme: scheme, Configure: settings.Configure})
//	op, err := framework.NewOperator(restConfig, options)
//	err = framework.Register(op, reconciler, framework.ControllerOptions[*v1.WebPage]{})
//	err = settings.Unused() // a typo
//
// # Keys
//
// A key is the path to a field of [framework.OperatorOptions] or [framework.ControllerOptions],
// with lower-case first letters: operator.syncTimeout, controllers.webpage.retry.maxAttempts.
// [OperatorKeys] and [ControllerKeys] list them. In a file the path is nested. On the command line
// it follows two dashes, as in --operator.grace=5s. As an environment variable it is in capitals
// after the prefix, as in WEBPAGE_CONTROLLERS_WEBPAGE_RETRY_MAX_ATTEMPTS.
//
// Values mean the same as in the Go field, including its zero and special values. Durations have
// Go's syntax (1m30s). Lists are separated by commas, or are lists in a file.
//
// # Precedence
//
// If several sources set the same key, the first one counts. A setting replaces what the author
// wrote. The framework validates the options, wherever they come from.
//
// # Concurrency
//
// Settings are read at the start, from one goroutine. Later changes have no effect.
//
// # What it does not do
//
// It has no settings for options that an author's code depends on: kinds, secondaries, filters,
// AllEvents. It has no settings of the author's own; use any library for these. Do not use it for
// secrets: errors quote values.
package config
