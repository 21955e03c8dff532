package mutants

// inVirtualTime are tests of the framework by name; they need no API server.
func inVirtualTime(names string) []suite { return []suite{{folder: "framework", run: names}} }

var ofLeader = []mutant{
	{
		name:   "who holds the lease may write for as long as the others wait",
		breaks: "G06: no write is sent after the renewal deadline",
		file:   "framework/leader_election.go",
		old:    "record.RenewTime.Add(l.election.options.RenewDeadline)",
		new:    "time.Now().Add(2 * l.election.options.LeaseDuration)",
		kills:  inVirtualTime("TestG06WhoLosesTheLease"),
	},
	{
		name:   "only the begin of a write asks whether the lease is held",
		breaks: "G06: no write is sent after the renewal deadline, nor repeated",
		file:   "framework/fate.go",
		old:    "w.cluster.office.may()",
		new:    "ctx.Err() == nil",
		kills:  inVirtualTime("TestG06TheDeadlineHolds"),
	},
	{
		name:   "a run writes in whatever term there is",
		breaks: "G06: a run that ignored the loss of the lease cannot write when it comes back",
		file:   "framework/leader_term.go",
		old:    "	if !w.inRun() {\n",
		new:    "	if w.page != nil || w.page == nil {\n",
		kills:  inVirtualTime("TestG06ARunOfAnEarlierTerm"),
	},
	{
		name:   "the end of a term waits for the elector to notice",
		breaks: "G06: runs end with the deadline for writes",
		file:   "framework/leader_term.go",
		old:    "	t.over()\n",
		new:    "",
		kills:  inVirtualTime("TestG06ARunInFlight"),
	},
	{
		name:   "a run of an earlier term publishes events",
		breaks: "G06: what it decides does not come about",
		file:   "framework/context.go",
		old:    "	if c.ended.Load() || c.write.deposed() {\n		return\n",
		new:    "	if c.ended.Load() {\n		return\n",
		kills:  inVirtualTime("TestG06ARunWithoutTheLeasePublishes"),
	},
	{
		name:   "who stands by publishes events",
		breaks: "G06: who does not lead decides nothing",
		file:   "framework/operator.go",
		old:    "recorder != nil && op.cluster.office.may()",
		new:    "recorder != nil",
		kills:  specs("the one that leads tells"),
	},
	{
		name:   "a create of unknown fate is repeated in a later term",
		breaks: "G06: what another leader has undone is not done again",
		file:   "framework/run.go",
		old:    "left.in == rc.write.term",
		new:    "left.in != nil",
		kills:  inVirtualTime("TestG06WritesOfUnknownFate"),
	},
	{
		name:   "who takes over trusts its watches",
		breaks: "G01: the first runs of a term read what the leader before has written",
		file:   "framework/leader_takeover.go",
		old:    "		if !s.isSynced() {\n",
		new:    "		if s.isSynced() {\n",
		kills:  inVirtualTime("TestG01WhoTakesOver"),
	},
	{
		name:   "the lease is given up before the runs in flight have ended",
		breaks: "G19: the lease is held until the last write",
		file:   "framework/operator.go",
		old:    "	err := group.Wait()\n	op.cluster.flying.end()\n	return errors.Join(err, resign())\n",
		new:    "	<-groupCtx.Done()\n	resigned := resign()\n	return errors.Join(group.Wait(), resigned)\n",
		kills:  inVirtualTime("TestG19TheLeaseIsRenewed"),
	},
	{
		name:   "the begin of a watch is a sign of life of its bookmarks",
		breaks: "G18: a half-open watch is noticed, however often it is begun anew",
		file:   "trc/silence.go",
		old:    "		return now - time.Duration(heard), w.store.options.StaleAfter\n",
		new:    "		return now - time.Duration(max(heard, w.begun.Load())), w.store.options.StaleAfter\n",
		kills:  []suite{{folder: "trc", run: "TestG18AWatchWhoseBookmarksStop"}},
	},
}
