package mutants

// ledgerTests are those of the ledger alone.
var ledgerTests = store("TestO1_O2|TestPaths|TestO5|TestClosing|TestO15|TestForget|TestModel_O15|TestG16_NothingIsLeftOfManyRuns")

var ofLedger = []mutant{
	{
		name:   "a change is own if another object's was",
		breaks: "G04: no foreign change is lost",
		file:   "trc/ledger.go",
		old:    "			for _, edge := range page.edges[uid] {\n",
		new:    "			var all []Edge\n			for _, of := range page.edges {\n				all = append(all, of...)\n			}\n			_ = uid\n			for _, edge := range all {\n",
		kills:  ledgerTests,
	},
	{
		name:   "a change is own if its new version is",
		breaks: "G04: no foreign change is lost",
		file:   "trc/ledger.go",
		old:    "				if edge.From != at {\n",
		new:    "				if edge.From != at && edge.To != to {\n",
		kills:  ledgerTests,
	},
	{
		name:   "several own writes in a row are foreign",
		breaks: "O4: a step that own writes cover as a whole is own",
		file:   "trc/ledger.go",
		old:    "				reached = append(reached, edge.To)\n",
		new:    "",
		kills:  ledgerTests,
	},
	{
		name:   "what others wrote is own",
		breaks: "O8: the other primaries of a shared secondary are due",
		file:   "trc/ledger.go",
		old:    "	pages := l.pages[writer]\n",
		new:    "	var pages []*Page\n	for _, of := range l.pages {\n		pages = append(pages, of...)\n	}\n	_ = writer\n",
		kills:  ledgerTests,
	},
	{
		name:   "only the last run's writes are own",
		breaks: "G05: own writes cause no further run",
		file:   "trc/ledger.go",
		old:    "	if len(pages) == 0 || to == \"\" {\n		return false\n	}\n",
		new:    "	if len(pages) == 0 || to == \"\" {\n		return false\n	}\n	pages = pages[len(pages)-1:]\n",
		kills:  ledgerTests,
	},
	{
		name:   "a page that was closed takes further edges",
		breaks: "G16: no edge is left at quiescence",
		file:   "trc/ledger.go",
		old:    "	if p.closed {\n		return\n	}\n",
		new:    "",
		kills:  ledgerTests,
	},
	{
		name:   "a full ledger grows",
		breaks: "O15: the ledger is bounded",
		file:   "trc/ledger.go",
		old:    "	for l.edges > l.limit {\n		l.forgetOldestLocked()\n	}\n",
		new:    "",
		kills:  ledgerTests,
	},
	{
		name:   "what was proven before a restore from a backup still counts",
		breaks: "G04: no foreign change is lost",
		file:   "trc/ledger.go",
		old:    "	for l.oldest != nil {\n		l.clearLocked(l.oldest)\n	}\n",
		new:    "",
		kills:  ledgerTests,
	},
}
