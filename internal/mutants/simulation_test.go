package mutants

// worlds are the first two hundred of the simulation.
var worlds = []suite{{folder: "internal/simulation", run: "TestG01ToG19HoldInEveryWorld/^1?[0-9]{1,2}$"}}

// ofSimulation are mistakes of the whole, each of which one world in a hundred or so shows.
var ofSimulation = []mutant{
	{
		name:   "what has been read after a conflict is not shown",
		breaks: "G01: a run begins with what is known of its own writes",
		file:   "framework/internal/write/readback.go",
		old:    "	live, missed, err := x.w.read(ctx, x.resource, x.key)\n",
		new:    "	missed := false\n	live, err := x.resource.Get(ctx, x.key)\n",
		kills:  worlds,
	},
	{
		name:   "whoever takes over begins with what its watches have told",
		breaks: "G01: the first runs of a term read what the leader before has written",
		file:   "framework/operator_leader.go",
		old:    "	op.host.CatchUp(ctx, op.options.LeaderElection.RenewDeadline)\n",
		new:    "",
		kills:  inVirtualTime("TestG01WhoTakesOver"),
	},
	{
		name:   "whoever takes over gives up on a server that has trouble as on one that refuses",
		breaks: "G01: the first runs of a term read what the leader before has written",
		file:   "framework/internal/write/catchup.go",
		old:    "					refusedSince = time.Now()\n",
		new:    "",
		kills:  inVirtualTime("TestG01WhoTakesOver"),
	},
	{
		name:   "the finalizer goes though Cleanup wants to keep it",
		breaks: "G09: the finalizer is removed only after cleanup succeeded",
		file:   "framework/internal/run/run.go",
		old:    "	if control.Kind == KeepsFinalizer {\n",
		new:    "	if control.Kind == KeepsFinalizer && e.run == nil {\n",
		kills:  worlds,
	},
	{
		name:   "the writes of one controller are taken for those of all",
		breaks: "G04: the other controllers see every change",
		file:   "framework/internal/run/controller.go",
		old:    "trc.Writer{Controller: c.Name, Primary: key}",
		new:    "trc.Writer{Primary: key}",
		kills:  worlds,
	},
	{
		name:   "a read that failed after a refusal is not made up for",
		breaks: "G01: a run begins with what is known of its own writes",
		file:   "framework/internal/write/readback.go",
		old:    "		x.creates = false // the object is known to exist; the next run begins with the read\n		x.leave()\n",
		new:    "",
		kills:  []suite{{folder: "framework", run: "TestG01ARunDoesNotBegin"}},
	},
	{
		name:   "a refusal is taken for the fate of an attempt before it",
		breaks: "G01: a run begins with what is known of its own writes",
		file:   "framework/internal/write/readback.go",
		old:    "	case x.lost: // it says",
		new:    "	case x.lost && x.base == nil && !x.creates: // it says",
		kills:  []suite{{folder: "framework", run: "TestG01ARunDoesNotBegin"}},
	},
	{
		name:   "a renewal counts from when it is sent",
		breaks: "G06: no write comes when another may lead",
		file:   "framework/internal/lease/election.go",
		old:    "record.RenewTime.Add(l.election.options.RenewDeadline)",
		new:    "time.Now().Add(l.election.options.RenewDeadline)",
		kills:  []suite{{folder: "framework", run: "TestG06ARenewal"}},
	},
	{
		name:   "who stands by keeps what is said of primaries that are gone",
		breaks: "G16: nothing is kept of a primary that is gone",
		file:   "framework/internal/run/trigger.go",
		old:    "	case s.isMissing(primary), c.pause.has(primary):\n",
		new:    "	case c.pause.has(primary):\n",
		kills:  []suite{{folder: "framework", run: "TestG16WhoStandsBy"}},
	},
}
