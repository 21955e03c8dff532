// Package config lets those who deploy an operator set what its author would otherwise have to compile in: timeouts,
// retries, numbers of workers, namespaces, leader election.
//
//	settings, err := config.Load(config.Args(os.Args[1:]), config.Env("WEBPAGE"), config.File("/etc/webpage/config.yaml"))
//	options, err := settings.Operator(framework.OperatorOptions{Scheme: scheme})
//	op, err := framework.NewOperator(restConfig, options)
//	pages, err := config.Controller(settings, "webpage", framework.ControllerOptions[*v1.WebPage]{})
//	err = framework.Register(op, reconciler, pages)
//	err = settings.Unused() // a typo
//
// # Keys
//
// A key is the path to a field of [framework.OperatorOptions] or [framework.ControllerOptions], with lower first
// letters: operator.syncTimeout, controllers.webpage.retry.maxAttempts. [OperatorKeys] and [ControllerKeys] list them.
// In a file the path is nested; on the command line it follows two dashes, as in --operator.grace=5s; as an
// environment variable it is in capitals behind the prefix, as in WEBPAGE_CONTROLLERS_WEBPAGE_RETRY_MAX_ATTEMPTS.
//
// Values mean what the Go field means, its zero and special values included. Durations are Go's (1m30s), lists are
// separated by commas, or lists in a file.
//
// # Precedence
//
// Of several sources, the first that sets a key counts. A setting replaces what the author wrote. What the framework
// refuses, it refuses whoever said it.
//
// # Concurrency
//
// Settings are read at the start, from one goroutine. What is changed later is not noticed.
//
// # What it does not do
//
// It has no settings for what an author's code depends on: kinds, secondaries, filters, AllEvents. It adds no settings
// of the author's own; take any library for these. Secrets do not belong in here: errors name values.
package config
