package mutants

// ofContests are mutants of what finds fights over fields and loops of runs.
var ofContests = []mutant{
	{
		name:   "what is set to another value counts as set back",
		breaks: "G15: no fight is named that is none",
		file:   "framework/internal/contest/fight.go",
		old:    "			f.value, f.times = value, nil\n",
		new:    "			f.value = value\n			f.setBack(at.used)\n",
		kills:  []suite{{folder: "framework/internal/contest", run: "TestFights|TestOnlyFields|TestAPlace"}},
	},
	{
		name:   "what a writer met of itself counts as set back",
		breaks: "G15: no fight is named that is none",
		file:   "framework/internal/contest/fight.go",
		old:    "	fight := b.compareLocked(at, changes, w, rival == w.By)\n",
		new:    "	fight := b.compareLocked(at, changes, w, false)\n",
		kills:  []suite{{folder: "framework/internal/contest", run: "TestFights|TestOnlyFields|TestAPlace"}},
	},
	{
		name:   "a field of another manager is fought over",
		breaks: "G15: no fight is named that is none",
		file:   "framework/internal/contest/owns.go",
		old:    "		if e.Manager != manager || e.FieldsV1 == nil {\n",
		new:    "		if e.FieldsV1 == nil {\n",
		kills:  []suite{{folder: "framework/internal/contest", run: "TestFights|TestOnlyFields|TestAPlace"}},
	},
	{
		name:   "a write that the watch delivers before its answer is no write",
		breaks: "G15: fights are named",
		file:   "framework/internal/write/contest.go",
		old:    "	if shown != nil && shown.GetResourceVersion() != got.GetResourceVersion() { // otherwise the watch was faster than the answer\n",
		new:    "	if shown != nil {\n",
		kills:  []suite{{folder: "framework", run: "TestAFight"}},
	},
	{
		name:   "all versions of an object were written by the last run",
		breaks: "G15: no loop is named that is none",
		file:   "framework/internal/contest/contest.go",
		old:    "	if s.uid != hash || s.version != maphash.String(b.seed, version) {\n",
		new:    "	if s.uid != hash {\n",
		kills:  []suite{{folder: "framework/internal/contest", run: "TestFights|TestOnlyFields|TestAPlace"}},
	},
	{
		name:   "a cause of others is overlooked in a chain",
		breaks: "G15: no loop is named that is none",
		file:   "framework/internal/run/loops.go",
		old:    "		if !known {\n			return contest.Place{}\n		}\n",
		new:    "		if !known {\n			continue\n		}\n",
		kills:  []suite{{folder: "framework", run: "TestALoop|TestWhatOthers|TestWhatUsers"}},
	},
	{
		name:   "runs in a fight are not slowed",
		breaks: "G15: a fight does not keep the server busy",
		file:   "framework/internal/run/loops.go",
		old:    "	result.Rest = scheduler.SlowestLoop\n",
		new:    "",
		kills:  []suite{{folder: "framework", run: "TestAFight"}},
	},
	{
		name:   "the fields of a Secret are named whole",
		breaks: "G18: nothing of a Secret's content is shown",
		file:   "internal/fieldpath/fieldpath.go",
		old:    "	return Text(changes, kind == SecretKind, more)\n",
		new:    "	return Text(changes, false, more)\n",
		kills:  []suite{{folder: "framework", run: "TestFieldsThatChange"}},
	},
}
