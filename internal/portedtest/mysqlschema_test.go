package portedtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// mySQLSchemas reconciles MySQLSchemas as the sample mysql-schema of the Java Operator SDK does: it
// makes a Secret with a user's name and password, then the schema with that user, then the status.
// Faithful are
//
//   - SecretDependentResource.java: the Secret has no owner reference and is never changed;
//   - SchemaDependentResource.java: what is created is decided by whether there is a schema, the
//     schema is never changed, and the user that is dropped is the one that the status names;
//   - SchemaService.java: the schema is created first, then the user if there is none, then the
//     grant, and the schema is dropped before the user;
//   - MySQLSchemaReconciler.java: a failure replaces the whole status, with the user's name.
//
// The original draws the password at random. Here it follows from the name, so that lives can be
// compared. The original polls the database; here each run asks it.
type mySQLSchemas struct {
	secrets framework.Secondary[*corev1.Secret]
	db      database
	// mended says that the schema is created last, that the name of the user is not remembered, and
	// that the Secret is deleted.
	mended bool
}

type (
	schemaContext = framework.Context[*MySQLSchema]
	schemaUpdate  = framework.UpdateControl[*MySQLSchema]
)

const (
	secretSuffix = "-secret"
	userKey      = "mysql.secret.user.name"
	passwordKey  = "mysql.secret.user.password"
)

func registerMySQLSchemas(mended bool) func(*framework.Operator, *frameworktest.Process) error {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		r := &mySQLSchemas{db: database{p.External("schemas"), p.External("users")}, mended: mended}
		r.secrets.By = eventsource.Names{Suffix: secretSuffix}
		return framework.Register(op, r, framework.ControllerOptions[*MySQLSchema]{Secondaries: framework.Secondaries(&r.secrets)})
	}
}

func userOf(s *MySQLSchema) string { return s.Name + "-user" }

func (r *mySQLSchemas) Reconcile(ctx context.Context, s *MySQLSchema, c *schemaContext) (schemaUpdate, error) {
	secret, err := r.secrets.Get(c)
	if err != nil {
		return schemaUpdate{}, err
	}
	if secret == nil {
		if secret, err = framework.Create(ctx, c, secretOf(s)); err != nil {
			return schemaUpdate{}, err
		}
	}
	exists, err := r.db.hasSchema(ctx, s.Name)
	if err != nil {
		return schemaUpdate{}, err
	}
	if !exists {
		if err := r.create(ctx, s, string(secret.Data[userKey]), string(secret.Data[passwordKey])); err != nil {
			return schemaUpdate{}, err
		}
	}
	s.Status = MySQLSchemaStatus{
		URL: "jdbc:mysql://db/" + s.Name, UserName: string(secret.Data[userKey]), SecretName: secret.Name, Status: "CREATED",
	}
	return framework.PatchStatus(s), nil
}

// create makes the schema, the user and the grant.
func (r *mySQLSchemas) create(ctx context.Context, s *MySQLSchema, user, password string) error {
	schema := func() error { return r.db.createSchema(ctx, s.Name, s.Spec.Encoding) }
	access := func() error {
		if err := r.db.createUser(ctx, user, password); err != nil {
			return err
		}
		return r.db.grant(ctx, user, password, s.Name)
	}
	steps := []func() error{schema, access}
	if r.mended {
		steps = []func() error{access, schema}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *mySQLSchemas) ErrorStatus(_ context.Context, s *MySQLSchema, _ *schemaContext, failure error) framework.ErrorStatusControl[*MySQLSchema] {
	s.Status = MySQLSchemaStatus{Status: "ERROR: " + failure.Error()}
	return framework.PatchErrorStatus(s)
}

func (r *mySQLSchemas) Cleanup(ctx context.Context, s *MySQLSchema, c *schemaContext) (framework.DeleteControl, error) {
	user := s.Status.UserName
	if r.mended {
		user = userOf(s)
		if err := r.deleteSecret(ctx, c); err != nil {
			return framework.DeleteControl{}, err
		}
	}
	if err := r.db.dropSchema(ctx, s.Name); err != nil {
		return framework.DeleteControl{}, err
	}
	if user != "" {
		if err := r.db.dropUser(ctx, user); err != nil {
			return framework.DeleteControl{}, err
		}
	}
	return framework.RemoveFinalizer(), nil
}

func (r *mySQLSchemas) deleteSecret(ctx context.Context, c *schemaContext) error {
	secret, err := r.secrets.Get(c)
	if err != nil || secret == nil {
		return err
	}
	return framework.Delete(ctx, c, secret)
}

func secretOf(s *MySQLSchema) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + secretSuffix},
		Data:       map[string][]byte{userKey: []byte(userOf(s)), passwordKey: []byte("password of " + s.Name)},
	}
}

// database is MySQL as far as the sample goes. A user's value are its password and its grant.
type database struct{ schemas, users *frameworktest.External }

var errExists = errors.New("it exists already")

// find returns the item of a name, and whether there is one.
func find(ctx context.Context, in *frameworktest.External, name string) (frameworktest.Item, bool, error) {
	items, err := in.List(ctx, name)
	if err != nil || len(items) == 0 {
		return frameworktest.Item{}, false, err
	}
	return items[0], true, nil
}

func (d database) hasSchema(ctx context.Context, name string) (bool, error) {
	_, exists, err := find(ctx, d.schemas, name)
	return exists, err
}

// createSchema fails if there is one of that name, as MySQL does.
func (d database) createSchema(ctx context.Context, name, encoding string) error {
	exists, err := d.hasSchema(ctx, name)
	if err != nil {
		return err
	}
	if exists {
		return fmt.Errorf("create schema %s: %w", name, errExists)
	}
	_, err = d.schemas.Create(ctx, name, encoding)
	return err
}

// createUser does nothing if there is one of that name.
func (d database) createUser(ctx context.Context, name, password string) error {
	if _, exists, err := find(ctx, d.users, name); err != nil || exists {
		return err
	}
	_, err := d.users.Create(ctx, name, password)
	return err
}

func (d database) grant(ctx context.Context, user, password, schema string) error {
	item, exists, err := find(ctx, d.users, user)
	if err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("grant: %w: %s", frameworktest.ErrNoItem, user)
	}
	granted := password + ", all on " + schema
	if strings.HasSuffix(item.Value, granted) {
		return nil
	}
	return d.users.Update(ctx, item.ID, granted)
}

func (d database) dropSchema(ctx context.Context, name string) error {
	return drop(ctx, d.schemas, name)
}

func (d database) dropUser(ctx context.Context, name string) error { return drop(ctx, d.users, name) }

func drop(ctx context.Context, from *frameworktest.External, name string) error {
	item, exists, err := find(ctx, from, name)
	if err != nil || !exists {
		return err
	}
	return from.Delete(ctx, item.ID)
}
