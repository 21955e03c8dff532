package mutants

var (
	// conditionTables are the rows of the conditions: they take no API server.
	conditionTables = []suite{{folder: "framework/ready", run: "TestC102"}}
	// definitionSpecs have CustomResourceDefinitions come and go on a whole control plane.
	definitionSpecs = []suite{{folder: "internal/conditionstest", focus: "CRDPresent"}}
)

var ofConditions = []mutant{
	{
		name:   "a Deployment is judged by the status of another generation",
		breaks: "C102: what depends on a node starts when that is ready",
		file:   "framework/ready/deployment.go",
		old:    "s.ObservedGeneration < d.Generation",
		new:    "d.Status.ObservedGeneration > d.Generation",
		kills:  conditionTables,
	},
	{
		name:   "a Deployment that only scales while it is paused is stalled",
		breaks: "C102: stalled is what does not get on by itself",
		file:   "framework/ready/deployment.go",
		old:    " && s.Replicas >= wanted:",
		new:    ":",
		kills:  conditionTables,
	},
	{
		name:   "a StatefulSet with a partition waits for all of its Pods",
		breaks: "C102: what depends on a node starts when that is ready",
		file:   "framework/ready/workloads.go",
		old:    "updated = max(0, wanted-*rolling.Partition)",
		new:    "updated = wanted",
		kills:  conditionTables,
	},
	{
		name:   "a Job that has failed is waited for",
		breaks: "C102: stalled is what does not get on by itself",
		file:   "framework/ready/tasks.go",
		old:    `return workflow.Stalled("has failed" + because(c.Reason, c.Message))`,
		new:    `return workflow.NotMet("has failed" + because(c.Reason, c.Message))`,
		kills:  conditionTables,
	},
	{
		name:   "a condition of another generation counts",
		breaks: "C102: what depends on a node starts when that is ready",
		file:   "framework/ready/condition.go",
		old:    "c.observed != 0 && c.observed < o.GetGeneration()",
		new:    "c.observed > o.GetGeneration()",
		kills:  conditionTables,
	},
	{
		name:   "a stalled node does not stall the whole",
		breaks: "C102: stalled is what does not get on by itself",
		file:   "framework/workflow/summary.go",
		old:    "return asked && !verdict.Met && verdict.Stalled",
		new:    "return asked && verdict.Met && verdict.Stalled",
		kills:  workflowTests("TestC102AConditionCanSayThatItStalls"),
	},
	{
		name:   "primaries are not told of the definition they ask about",
		breaks: "C102: an activation condition that changes its mind brings a run",
		file:   "framework/ready/crd.go",
		old:    "types.NamespacedName { return every }",
		new:    "types.NamespacedName { return every[:0] }",
		kills:  definitionSpecs,
	},
	{
		name:   "any change of a definition makes all primaries due",
		breaks: "G05: no run without a cause that matters",
		file:   "framework/ready/crd.go",
		old:    "return servesNow(old) != servesNow(new)",
		new:    "return true",
		kills:  definitionSpecs,
	},
}
