// Package conditions sets the status conditions that tools such as kubectl wait and kstatus use.
//
//	conditions.MarkWorkflow(&page.Status.Conditions, page.Generation, c.WorkflowResult())
//	conditions.MarkVerdict(&page.Status.Conditions, page.Generation, ready.Deployment(deployment))
//	conditions.MarkFailure(&page.Status.Conditions, page.Generation, err)
//
// [Ready] is always present. [Reconciling] and [Stalled] are present only while they are true, and
// never both. The functions change the slice in place. They keep other conditions, and the
// transition time of a condition whose status does not change.
package conditions
