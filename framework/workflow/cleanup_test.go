package workflow_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestC102Cleanup(t *testing.T) {
	for _, r := range cleanupRows {
		t.Run(r.name, func(t *testing.T) { r.check(t, (*workflow.Graph[*calls]).Cleanup) })
	}
}

var cleanupRows = []row{
	{name: "a graph without nodes does nothing"},
	{
		name: "a chain is deleted in reverse order", graph: "a b<a c<b",
		states: "a=Deleted b=Deleted c=Deleted", calls: "a.delete b.delete c.delete",
		order: "c.delete>b.delete b.delete>a.delete",
	},
	{
		name: "a diamond is deleted in reverse order", graph: "a b<a c<a d<b+c",
		states: "a=Deleted b=Deleted c=Deleted d=Deleted", calls: "a.delete b.delete c.delete d.delete",
		order: "d.delete>b.delete d.delete>c.delete b.delete>a.delete c.delete>a.delete",
	},
	{
		name: "what a failed deletion depends on is not deleted", graph: "a b<a[delete=error] c<a",
		states: "a=Skipped:b b=Failed c=Deleted", calls: "b.delete c.delete",
	},
	{
		name: "a met delete postcondition lets what it depends on go", graph: "a b<a[gone=yes]",
		states: "a=Deleted b=Deleted", calls: "b.delete b.gone? a.delete", order: "b.gone?>a.delete",
	},
	{
		name: "what a node that is not gone depends on stays", graph: "a b<a c<b[gone=no] d",
		states: "a=Waiting:c b=Waiting:c c=Deleting d=Deleted", calls: "c.delete c.gone? d.delete",
	},
	{
		name: "in a diamond the side that is not gone holds the top", graph: "a b<a[gone=no] c<a d<b+c",
		states: "a=Waiting:b b=Deleting c=Deleted d=Deleted", calls: "b.delete b.gone? c.delete d.delete",
	},
	{
		name: "garbage-collected nodes are left alone", graph: "a[collected] b<a[collected]",
		states: "a=Left b=Left", calls: "",
	},
	{
		name: "what is deleted goes before what is garbage-collected, which is left", graph: "a[collected] b<a",
		states: "a=Left b=Deleted", calls: "b.delete",
	},
	{
		name:  "a garbage-collected node that has to go before what it depends on is deleted",
		graph: "a b<a[readonly] c<b[collected]", states: "a=Deleted b=Deleted c=Deleted",
		calls: "c.delete a.delete", order: "c.delete>a.delete",
	},
	{
		name:  "a garbage-collected node that is deleted nevertheless has to be gone before what it depends on is deleted",
		graph: "a b<a[readonly] c<b[collected,after=no]", states: "a=Waiting:c b=Waiting:c c=Deleting", calls: "c.delete c.after?",
	},
	{
		name: "how a garbage-collected node would be gone is no reason to delete it", graph: "a[collected,after=no]",
		states: "a=Left", calls: "",
	},
	{
		name: "a garbage-collected node with a delete postcondition is deleted", graph: "a[collected,gone=no]",
		states: "a=Deleting", calls: "a.delete a.gone?",
	},
	{
		name: "neither preconditions nor ready postconditions are asked", graph: "a[wanted=no,ready=no] b<a",
		states: "a=Deleted b=Deleted", calls: "a.delete b.delete",
	},
	{
		name: "an active node is held and deleted", graph: "a[active=yes,activate=yes,deactivate=yes]",
		states: "a=Deleted", calls: "a.active? a.activate? a.delete", order: "a.activate?>a.delete",
	},
	{
		name: "the delete postcondition of an active node is respected", graph: "a b<a[active=yes,gone=no]",
		states: "a=Waiting:b b=Deleting", calls: "b.active? b.delete b.gone?",
	},
	{
		name: "an inactive node is not deleted", graph: "a b<a[active=no] c<b",
		states: "a=Deleted b=Inactive c=Deleted", calls: "c.delete b.active? a.delete", order: "c.delete>b.active? b.active?>a.delete",
	},
	{
		name: "the delete postcondition of an inactive node is not asked", graph: "a b<a[active=no,gone=no]",
		states: "a=Deleted b=Inactive", calls: "b.active? a.delete",
	},
	{
		name: "a lone inactive node holds nothing", graph: "a[active=no,deactivate=yes]",
		states: "a=Inactive", calls: "a.active? a.deactivate",
	},
	{
		name: "with DeleteInactive an inactive node is deleted", graph: "a b<a[active=no,deleteinactive,gone=no]",
		states: "a=Waiting:b b=Deleting", calls: "b.active? b.delete b.gone?",
	},
	{
		name: "a panic is a failure of its node alone", graph: "a b<a[delete=panic] c",
		states: "a=Skipped:b b=Failed c=Deleted", calls: "b.delete c.delete",
	},
	{
		name: "an activation condition without an answer is a failure", graph: "a b<a[active=error]",
		states: "a=Skipped:b b=Failed", calls: "b.active?",
	},
	{
		name: "what is only read needs nothing", graph: "a[readonly,active=yes,activate=no] b<a",
		states: "a=Deleted b=Deleted", calls: "a.active? b.delete",
	},
}
