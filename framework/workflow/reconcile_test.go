package workflow_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestC102Reconcile(t *testing.T) {
	for _, rows := range [][]row{orderRows, failureRows, preconditionRows, readyRows, activationRows} {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) { r.check(t, (*workflow.Graph[*calls]).Reconcile) })
		}
	}
}

var orderRows = []row{
	{name: "a graph without nodes does nothing"},
	{
		name: "what depends on nothing is reconciled", graph: "a b",
		states: "a=Ready b=Ready", calls: "a.reconcile b.reconcile",
	},
	{
		name: "a node is reconciled after what it depends on", graph: "b<a a",
		states: "b=Ready a=Ready", calls: "a.reconcile b.reconcile", order: "a.reconcile>b.reconcile",
	},
	{
		name: "two that depend on one are reconciled after it", graph: "a b<a c<a",
		states: "a=Ready b=Ready c=Ready", calls: "a.reconcile b.reconcile c.reconcile",
		order: "a.reconcile>b.reconcile a.reconcile>c.reconcile",
	},
	{
		name: "a chain is reconciled in its order", graph: "c<b b<a a",
		states: "c=Ready b=Ready a=Ready", calls: "a.reconcile b.reconcile c.reconcile",
		order: "a.reconcile>b.reconcile b.reconcile>c.reconcile",
	},
	{
		name: "the end of a diamond is reconciled once, after both sides", graph: "a b<a c<a d<b+c",
		states: "a=Ready b=Ready c=Ready d=Ready", calls: "a.reconcile b.reconcile c.reconcile d.reconcile",
		order: "a.reconcile>b.reconcile a.reconcile>c.reconcile b.reconcile>d.reconcile c.reconcile>d.reconcile",
	},
	{
		name: "several roots each have their turn", graph: "a b c<a+b d<b",
		states: "a=Ready b=Ready c=Ready d=Ready", calls: "a.reconcile b.reconcile c.reconcile d.reconcile",
		order: "a.reconcile>c.reconcile b.reconcile>c.reconcile b.reconcile>d.reconcile",
	},
}

var failureRows = []row{
	{
		name: "a failure stops nothing beside it", graph: "a[reconcile=error] b",
		states: "a=Failed b=Ready", calls: "a.reconcile b.reconcile",
	},
	{
		name: "what depends on a failure is skipped", graph: "a[reconcile=error] b<a",
		states: "a=Failed b=Skipped:a", calls: "a.reconcile",
	},
	{
		name: "all that follows a failure is skipped, and names it", graph: "a[reconcile=error] b<a c<b",
		states: "a=Failed b=Skipped:a c=Skipped:a", calls: "a.reconcile",
	},
	{
		name: "when one branch fails the other is completed", graph: "a b<a[reconcile=error] c<a d<c e<b",
		states: "a=Ready b=Failed c=Ready d=Ready e=Skipped:b", calls: "a.reconcile b.reconcile c.reconcile d.reconcile",
	},
	{
		name: "one failed dependency is enough to be skipped", graph: "a b[reconcile=error] c<a+b",
		states: "a=Ready b=Failed c=Skipped:b", calls: "a.reconcile b.reconcile",
	},
	{
		name: "of two failures the first in DependsOn is named", graph: "a[reconcile=error] b[reconcile=error] c<b+a",
		states: "a=Failed b=Failed c=Skipped:b", calls: "a.reconcile b.reconcile",
	},
	{
		name: "a panic is a failure", graph: "a[reconcile=panic] b<a c",
		states: "a=Failed b=Skipped:a c=Ready", calls: "a.reconcile c.reconcile",
	},
	{
		name: "a condition that panics is a failure", graph: "a[wanted=panic] b[ready=panic] c",
		states: "a=Failed b=Failed c=Ready", calls: "a.wanted? b.reconcile b.ready? c.reconcile",
	},
	{
		name: "a precondition without an answer is a failure and deletes nothing", graph: "a[wanted=error] b<a",
		states: "a=Failed b=Skipped:a", calls: "a.wanted?",
	},
	{
		name: "a ready postcondition without an answer is a failure", graph: "a[ready=error] b<a",
		states: "a=Failed b=Skipped:a", calls: "a.reconcile a.ready?",
	},
	{
		name: "an activation condition without an answer is a failure and deletes nothing", graph: "a[active=error,deactivate=yes] b<a",
		states: "a=Failed b=Skipped:a", calls: "a.active?",
	},
	{
		name: "after a failure the ready postcondition is not asked", graph: "a[reconcile=error,ready=yes]",
		states: "a=Failed", calls: "a.reconcile",
	},
}

var preconditionRows = []row{
	{
		name: "a met precondition changes nothing", graph: "a[wanted=yes] b<a",
		states: "a=Ready b=Ready", calls: "a.wanted? a.reconcile b.reconcile", order: "a.wanted?>a.reconcile",
	},
	{
		name: "a node that is not wanted is deleted and not reconciled", graph: "a b<a[wanted=no]",
		states: "a=Ready b=Deleted", calls: "a.reconcile b.wanted? b.delete",
	},
	{
		name: "a precondition is asked only once what it depends on is ready", graph: "a[ready=no] b<a[wanted=no]",
		states: "a=NotReady b=Waiting:a", calls: "a.reconcile a.ready?",
	},
	{
		name: "nor is it asked after a failure: what exists stays", graph: "a[reconcile=error] b<a[wanted=no] c<b",
		states: "a=Failed b=Skipped:a c=Skipped:a", calls: "a.reconcile",
	},
	{
		name: "what depends on an unwanted node is deleted, whatever it says itself", graph: "a[wanted=no] b<a[wanted=yes] c<b[ready=yes]",
		states: "a=Deleted b=Deleted:a c=Deleted:a", calls: "a.wanted? a.delete b.delete c.delete",
		order: "c.delete>b.delete b.delete>a.delete",
	},
	{
		name: "in a diamond the unwanted side is deleted with the end, and the other side kept", graph: "a b<a[wanted=no] c<a d<b+c",
		states: "a=Ready b=Deleted c=Ready d=Deleted:b", calls: "a.reconcile b.wanted? c.reconcile d.delete b.delete",
		order: "d.delete>b.delete",
	},
	{
		name:  "what is being deleted stays so when another of its dependencies becomes ready",
		graph: "a b<a[wanted=no] c<a d<b+c e<d[gone=no]", states: "a=Ready b=Waiting:e c=Ready d=Waiting:e e=Deleting",
		calls: "a.reconcile b.wanted? c.reconcile e.delete e.gone?",
	},
	{
		name: "a whole diamond is deleted in reverse order", graph: "a[wanted=no] b<a c<a d<b+c",
		states: "a=Deleted b=Deleted:a c=Deleted:a d=Deleted:a", calls: "a.wanted? a.delete b.delete c.delete d.delete",
		order: "d.delete>b.delete d.delete>c.delete b.delete>a.delete c.delete>a.delete",
	},
	{
		name: "what depends on an unwanted and on a failed node is deleted", graph: "a[wanted=no] b[reconcile=error] c<b+a",
		states: "a=Deleted b=Failed c=Deleted:a", calls: "a.wanted? b.reconcile c.delete a.delete", order: "c.delete>a.delete",
	},
	{
		name: "what depends on an unwanted node and one that is not ready is deleted", graph: "b[ready=no] a[wanted=no] c<b+a",
		states: "b=NotReady a=Deleted c=Deleted:a", calls: "a.wanted? b.reconcile b.ready? c.delete a.delete",
	},
	{
		name: "what depends on two unwanted nodes is deleted once, before both", graph: "a[wanted=no] b[wanted=no] c<a+b",
		states: "a=Deleted b=Deleted c=Deleted:a", calls: "a.wanted? b.wanted? c.delete a.delete b.delete",
		order: "c.delete>a.delete c.delete>b.delete",
	},
	{
		name: "while what depends on it is not gone, an unwanted node waits", graph: "a[wanted=no] b<a[gone=no]",
		states: "a=Waiting:b b=Deleting", calls: "a.wanted? b.delete b.gone?",
	},
	{
		name: "in a diamond the side that is not gone holds the top", graph: "a[wanted=no] b<a[gone=no] c<a[gone=yes] d<b+c",
		states: "a=Waiting:b b=Deleting c=Deleted:a d=Deleted:a", calls: "a.wanted? b.delete b.gone? c.delete c.gone? d.delete",
		order: "d.delete>b.delete d.delete>c.delete",
	},
	{
		name: "a deletion that fails in the middle of a diamond holds the top", graph: "a[wanted=no] b<a[delete=error] c<a d<b+c",
		states: "a=Skipped:b b=Failed c=Deleted:a d=Deleted:a", calls: "a.wanted? b.delete c.delete d.delete",
	},
	{
		name: "a delete postcondition without an answer holds what comes after", graph: "a[wanted=no] b<a[gone=error]",
		states: "a=Skipped:b b=Failed", calls: "a.wanted? b.delete b.gone?",
	},
	{
		name: "a deletion that panics is a failure", graph: "a[wanted=no] b<a[delete=panic]",
		states: "a=Skipped:b b=Failed", calls: "a.wanted? b.delete",
	},
	{
		name: "a garbage-collected node that is not wanted is deleted", graph: "a[wanted=no,collected]",
		states: "a=Deleted", calls: "a.wanted? a.delete",
	},
	{
		name: "a garbage-collected node deep below an unwanted one is deleted", graph: "a[wanted=no,collected] b<a c<b[collected]",
		states: "a=Deleted b=Deleted:a c=Deleted:a", calls: "a.wanted? a.delete b.delete c.delete", order: "c.delete>b.delete",
	},
	{
		name: "what is only read has nothing to delete", graph: "a[wanted=no,readonly] b<a",
		states: "a=Deleted b=Deleted:a", calls: "a.wanted? b.delete",
	},
	{
		name: "what is only read may have to be gone all the same", graph: "a[wanted=no] b<a[readonly,gone=no]",
		states: "a=Waiting:b b=Deleting", calls: "a.wanted? b.gone?",
	},
	{
		name: "what nothing unwanted needs is untouched by it", graph: "a[wanted=no] b c<b",
		states: "a=Deleted b=Ready c=Ready", calls: "a.wanted? a.delete b.reconcile c.reconcile",
	},
}

var readyRows = []row{
	{
		name: "a met ready postcondition lets what depends on it start", graph: "a[ready=yes] b<a",
		states: "a=Ready b=Ready", calls: "a.reconcile a.ready? b.reconcile", order: "a.reconcile>a.ready? a.ready?>b.reconcile",
	},
	{
		name: "what depends on a node that is not ready waits", graph: "a[ready=no] b<a c<b",
		states: "a=NotReady b=Waiting:a c=Waiting:a", calls: "a.reconcile a.ready?",
	},
	{
		name: "one dependency that is not ready is enough to wait", graph: "a[ready=yes] b[ready=no] c<a+b",
		states: "a=Ready b=NotReady c=Waiting:b", calls: "a.reconcile a.ready? b.reconcile b.ready?",
	},
	{
		name: "the end of a diamond starts when both sides are ready", graph: "a[ready=yes] b<a[ready=yes] c<a[ready=yes] d<b+c[ready=yes]",
		states: "a=Ready b=Ready c=Ready d=Ready",
		calls:  "a.reconcile a.ready? b.reconcile b.ready? c.reconcile c.ready? d.reconcile d.ready?",
		order:  "b.ready?>d.reconcile c.ready?>d.reconcile",
	},
	{
		name: "the end of a diamond waits for the side that is not ready", graph: "a b<a c<a[ready=no] d<b+c",
		states: "a=Ready b=Ready c=NotReady d=Waiting:c", calls: "a.reconcile b.reconcile c.reconcile c.ready?",
	},
	{
		name: "a failure counts more than one that is not ready", graph: "a[ready=no] b[reconcile=error] c<a+b",
		states: "a=NotReady b=Failed c=Skipped:b", calls: "a.reconcile a.ready? b.reconcile",
	},
}

var activationRows = []row{
	{
		name: "an active node is held and reconciled", graph: "a[active=yes,activate=yes,deactivate=yes]",
		states: "a=Ready", calls: "a.active? a.activate? a.reconcile", order: "a.active?>a.activate? a.activate?>a.reconcile",
	},
	{
		name: "a lone inactive node is neither reconciled nor deleted, and holds nothing", graph: "a[active=no,activate=yes,deactivate=yes]",
		states: "a=Inactive", calls: "a.active? a.deactivate",
	},
	{
		name: "of an inactive node no other condition is asked", graph: "a[active=no,wanted=yes,ready=yes,gone=no]",
		states: "a=Inactive", calls: "a.active?",
	},
	{
		name: "an inactive node does not disturb the others", graph: "a b<a[active=no] c<a",
		states: "a=Ready b=Inactive c=Ready", calls: "a.reconcile b.active? c.reconcile",
	},
	{
		name: "what depends on an inactive node is deleted before that holds nothing", graph: "a[active=no,deactivate=yes] b<a c<b",
		states: "a=Inactive b=Deleted:a c=Deleted:a", calls: "a.active? c.delete b.delete a.deactivate",
		order: "c.delete>b.delete b.delete>a.deactivate",
	},
	{
		name: "while what depends on it is not gone, an inactive node still holds what it holds", graph: "a[active=no,deactivate=yes] b<a[gone=no]",
		states: "a=Waiting:b b=Deleting", calls: "a.active? b.delete b.gone?",
	},
	{
		name: "an inactive node below an inactive one is not deleted, and asked once", graph: "a[active=no] b<a[active=no,deactivate=yes] c<b",
		states: "a=Inactive b=Inactive c=Deleted:a", calls: "a.active? b.active? c.delete b.deactivate", order: "c.delete>b.active?",
	},
	{
		name:  "an active node below an inactive one is held, deleted, and its postcondition respected",
		graph: "a[active=no,deactivate=yes] b<a[active=yes,activate=yes,gone=yes]", states: "a=Inactive b=Deleted:a",
		calls: "a.active? b.active? b.activate? b.delete b.gone? a.deactivate", order: "b.activate?>b.delete b.delete>b.gone?",
	},
	{
		name: "an active node that is not wanted is asked once and held once", graph: "a[active=yes,activate=yes,wanted=no,deactivate=yes]",
		states: "a=Deleted", calls: "a.active? a.activate? a.wanted? a.delete",
	},
	{
		name: "what is still on its way to be held waits, and what depends on it, too", graph: "a[active=yes,activate=no] b<a",
		states: "a=Waiting b=Waiting:a", calls: "a.active? a.activate?",
	},
	{
		name: "it is not deleted either before it is held", graph: "a[wanted=no] b<a[active=yes,activate=no]",
		states: "a=Waiting:b b=Waiting", calls: "a.wanted? b.active? b.activate?",
	},
	{
		name: "a node that cannot be held fails", graph: "a[activate=error] b<a",
		states: "a=Failed b=Skipped:a", calls: "a.activate?",
	},
	{
		name: "a node that cannot be let go of fails", graph: "a[wanted=no] b<a[active=no,deactivate=error]",
		states: "a=Skipped:b b=Failed", calls: "a.wanted? b.active? b.deactivate",
	},
	{
		name:  "with DeleteInactive an inactive node is deleted before it holds nothing",
		graph: "a[active=no,activate=yes,deactivate=yes,deleteinactive,gone=yes]", states: "a=Inactive",
		calls: "a.active? a.delete a.gone? a.deactivate", order: "a.delete>a.gone? a.gone?>a.deactivate",
	},
	{
		name:  "with DeleteInactive a node that is not gone still holds what it holds",
		graph: "a[active=no,deactivate=yes,deleteinactive,gone=no] b<a", states: "a=Deleting b=Deleted:a",
		calls: "a.active? b.delete a.delete a.gone?", order: "b.delete>a.delete",
	},
}
