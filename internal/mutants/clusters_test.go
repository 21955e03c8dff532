package mutants

// far are the tests of other clusters.
func far(run string) []suite { return []suite{{folder: "framework", run: run}} }

var ofClusters = []mutant{
	{
		name:   "all clusters share a ledger",
		breaks: "G04: versions and UIDs of one cluster say nothing of another",
		file:   "framework/internal/host/fleet.go",
		old:    "	if h.remotes == nil {\n		h.remotes",
		new:    "	remote.Ledger = h.Cluster.Ledger\n	if h.remotes == nil {\n		h.remotes",
		kills:  far("TestG04AnOwnWriteInOneCluster"),
	},
	{
		name:   "causes do not say in which cluster a change was",
		breaks: "G05: own writes cause no further run, in whatever cluster",
		file:   "eventsource/informer.go",
		old:    "	cause.Cluster = i.options.Cluster\n",
		new:    "",
		kills:  far("TestG05OwnWritesToAnother"),
	},
	{
		name:   "what is proven in other clusters is kept",
		breaks: "G16: nothing is left once a run is decided",
		file:   "framework/internal/write/run.go",
		old:    "		pages = other.answers.appendPage(pages)\n",
		new:    "		_ = other.answers.appendPage(nil)\n",
		kills:  far("TestG05OwnWritesToAnother"),
	},
	{
		name:   "the lease is asked for in the operator's own cluster only",
		breaks: "G06: nothing is written after the lease is lost, in whatever cluster",
		file:   "framework/internal/host/fleet.go",
		old:    "remote.Fence, remote.Others = h.Cluster.Fence, h.severalClusters",
		new:    "remote.Others = h.severalClusters",
		kills:  far("TestG06WritesToAnotherClusterEndWithTheLease"),
	},
	{
		name:   "what became of a write is asked in the operator's own cluster",
		breaks: "G11: a create of unknown fate is found out about",
		file:   "framework/internal/write/readback.go",
		old:    "		x.w.Run.unresolved.add(x.Request)\n",
		new:    "		x.port = x.w.Run.Local.Port\n		x.w.Run.unresolved.add(x.Request)\n",
		kills:  far("TestG11ACreateOfUnknownFateInAnotherCluster"),
	},
	{
		name:   "an object may be written to another cluster than its own",
		breaks: "G14: no write lands on another object than the one read",
		file:   "framework/internal/write/writer.go",
		old:    "	if uid == \"\" {\n		return nil",
		new:    "	if uid == \"\" || r != nil {\n		return nil",
		kills:  far("TestAWriteToTheWrongCluster"),
	},
	{
		name:   "a watch is guarded by what was allowed when it began",
		breaks: "G18: half-open watches are begun anew in time",
		file:   "trc/stale.go",
		old:    "g.timer.Reset(min(left, soon))",
		new:    "g.timer.Reset(left)",
		kills:  []suite{{folder: "trc", run: "TestG18AWatchThatFallsSilent"}},
	},
	{
		name:   "watches that end at once are well",
		breaks: "G18: what does not work shows",
		file:   "trc/feed.go",
		old:    "cmp.Or(*err, w.barrenErr())",
		new:    "cmp.Or(*err, nil)",
		kills:  []suite{{folder: "trc", run: "TestG18WatchesThatEnd"}},
	},
	{
		name:   "a request that nobody answers is waited for",
		breaks: "G18: half-open connections are noticed",
		file:   "trc/stale.go",
		old:    "	limit := w.store.options.StaleAfter\n	timer",
		new:    "	limit := 1000 * w.store.options.StaleAfter\n	timer",
		kills:  far("TestG18AWatchThatNobodyAnswers"),
	},
	{
		name:   "the primary's mirror in another cluster is taken for it",
		breaks: "G09: what is written to the primary is of the primary",
		file:   "framework/internal/write/run.go",
		old:    "&Config{Port: c, FieldManager: r.Local.FieldManager, Mode: r.Local.Mode}, Run: r}",
		new:    "&Config{Port: c, FieldManager: r.Local.FieldManager, Mode: r.Local.Mode}, Run: r, primary: &r.Primary}",
		kills:  far("TestAMirrorOfThePrimary"),
	},
}
