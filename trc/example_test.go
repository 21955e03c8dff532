package trc_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/trc"
)

// Every read sees the answer to a write, long before the watch has it. This example plays the watch
// by hand; [trc.Store.Run] feeds the store from an API server.
func ExampleStore() {
	configMap := func(version, greeting string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "page", UID: "u1", ResourceVersion: version},
			Data:       map[string]string{"greeting": greeting},
		}
	}
	store := trc.NewStore(trc.Options{Name: "configmaps"})
	watch := store.AddWatch("")
	key := trc.Key{Namespace: "web", Name: "page"}
	read := func() string { return store.Get(key).(*corev1.ConfigMap).Data["greeting"] }

	_ = watch.Replace([]any{configMap("5", "hello")}, "10")
	fmt.Println("listed:", read())

	_ = store.Acknowledge(configMap("12", "good morning"), trc.Proof{Base: "11"})
	fmt.Println("written:", read(), "- ahead:", store.Ahead())

	_ = watch.Update(configMap("11", "hi")) // somebody else's, from before our write
	fmt.Println("watch is late:", read())

	_ = watch.Update(configMap("12", "good morning"))
	fmt.Println("watch is up to date:", read(), "- ahead:", store.Ahead())

	store.AcknowledgeGone(key, "u1", "12")
	fmt.Println("deleted:", store.Get(key) == nil)
	// Output:
	// listed: hello
	// written: good morning - ahead: 1
	// watch is late: good morning
	// watch is up to date: good morning - ahead: 0
	// deleted: true
}

// Subscribers receive what changed for readers: an own write is a change, its watch event is not.
func ExampleStore_Subscribe() {
	secret := func(version string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		o.Name, o.UID, o.ResourceVersion = "key", "u1", version
		return o
	}
	store := trc.NewStore(trc.Options{Name: "secrets"})
	watch := store.AddWatch("")
	stop := store.Subscribe(func(t trc.Transition) {
		switch {
		case t.Old == nil:
			fmt.Println("added", t.New.GetResourceVersion())
		case t.New == nil:
			fmt.Println("deleted", t.Old.GetResourceVersion())
		default:
			fmt.Println("updated", t.Old.GetResourceVersion(), "to", t.New.GetResourceVersion())
		}
	})
	defer stop()

	_ = store.Acknowledge(secret("11"), trc.Proof{})
	_ = watch.Replace([]any{secret("11")}, "11")
	_ = watch.Update(secret("12"))
	_ = watch.Delete(secret("13"))
	// Output:
	// added 11
	// updated 11 to 12
	// deleted 12
}
