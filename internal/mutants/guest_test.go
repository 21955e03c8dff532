package mutants

// ofGuest are those of the sources that authors bring.
var ofGuest = []mutant{
	{
		name:   "a guest that panics ends the process",
		breaks: "G15: a failure stays where it is",
		file:   "internal/author/author.go",
		old:    "if value := recover(); value != nil {",
		new:    "if value := any(nil); value != nil {",
		kills:  []suite{{folder: "framework", run: "TestG15ASourceThatPanics"}},
	},
	{
		name:   "a guest whose start has failed goes on to offer",
		breaks: "G15: a failure stays where it is",
		file:   "framework/guest.go",
		old:    "		door.closed.Store(true)\n		g.fails(",
		new:    "		g.fails(",
		kills:  []suite{{folder: "framework", run: "TestG15ASourceWhoseStartFails"}},
	},
	{
		name:   "a guest whose start hangs holds up those after it",
		breaks: "G15: a failure stays where it is",
		file:   "framework/guest.go",
		old:    "	g.logger.Info(\"source takes long to start\", \"attempt\", attempt)\n	g.hasBegun()\n",
		new:    "	g.logger.Info(\"source takes long to start\", \"attempt\", attempt)\n",
		kills:  []suite{{folder: "framework", run: "TestG15ASourceWhoseStartHangs"}},
	},
	{
		name:   "a guest that does not start is not started again",
		breaks: "G18: what fails recovers by itself",
		file:   "framework/guest.go",
		old:    "		case <-time.After(again.Step()):",
		new:    "		case <-time.After(again.Step() * 1000):",
		kills:  []suite{{folder: "framework", run: "TestG15ASourceWhoseStartFails"}},
	},
	{
		name:   "a guest that does not end holds up the end of the operator",
		breaks: "G19: a stop is bounded",
		file:   "framework/guest.go",
		old:    "		case <-time.After(stopPatience):",
		new:    "		case <-time.After(1000 * stopPatience):",
		kills:  []suite{{folder: "framework", run: "TestG19ASource"}},
	},
}
