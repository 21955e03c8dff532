package portedtest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
)

func schemaScenario(mended bool, story func(w *frameworktest.World)) frameworktest.Scenario {
	return frameworktest.Scenario{
		CRDs: "testdata", Scheme: types, RegisterWith: registerMySQLSchemas(mended), Cluster: frameworktest.Bare, Story: story,
	}
}

func schemaNamed(name string) *MySQLSchema {
	return &MySQLSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: MySQLSchemaSpec{Encoding: "utf8"}}
}

// oneSchema is a schema that stays.
func oneSchema(w *frameworktest.World) {
	kept := schemaNamed("kept")
	w.Create(kept)
	w.Rest()
	w.Merge(kept, `{"spec":{"encoding":"latin1"}}`)
	w.Rest()
}

// secondThoughts are of a user who deletes a schema as soon as it was made.
func secondThoughts(w *frameworktest.World) {
	mistake := schemaNamed("mistake")
	w.Create(mistake)
	w.Proceed(time.Millisecond)
	w.Delete(mistake)
	w.Rest()
}

// TestTheSchemaSampleForgetsUsers if it dies, or a call fails, once there is the schema: the next
// run finds a schema and makes no user. The status says CREATED, with the name of a user that is
// not there or may do nothing.
func TestTheSchemaSampleForgetsUsers(t *testing.T) {
	guilty(t, schemaScenario(false, oneSchema),
		"failed-read",
		"create schemas.external: crash-committed crash-answered lost-answer failed-500 rival stale-server",
		"create users.external: crash-before crash-committed crash-answered lost-answer refused-429 refused-500 failed-500 rival stale-server",
		"update users.external: crash-before refused-429 refused-500")
	frameworktest.Everywhere(t, schemaScenario(true, oneSchema))
}

// TestTheSchemaSampleLeavesUsers if the status was not written, or was replaced by that of a
// failure, when the schema is deleted. It leaves the Secret always: undisturbed there is one in the
// end, and none if the deletion came first.
func TestTheSchemaSampleLeavesUsers(t *testing.T) {
	guilty(t, schemaScenario(false, secondThoughts),
		"late@3s", "late@3s:mysqlschemas", "late@3m0s", "late@3m0s:mysqlschemas", "failed-read",
		"patch mysqlschemas.mysql.sample.javaoperatorsdk: crash-before crash-committed crash-answered lost-answer refused-429 refused-500 failed-500 rival stale-server slow-answer",
		"create secrets: crash-before refused-429 refused-500 slow-answer",
		"create schemas.external: slow-answer",
		"create users.external: crash-committed crash-answered lost-answer failed-500 rival stale-server slow-answer",
		"update users.external: crash-before crash-committed crash-answered lost-answer refused-429 refused-500 failed-500 rival stale-server slow-answer",
		"patch mysqlschemas.mysql.sample.javaoperatorsdk status: crash-before refused-429 refused-500")
	frameworktest.Everywhere(t, schemaScenario(true, secondThoughts))
}

func TestTheMendedSchemaSampleComesThroughRandomWalks(t *testing.T) {
	frameworktest.Everywhere(t, schemaScenario(true, secondThoughts).Random(depth.Of(5, 20, 100)))
}
