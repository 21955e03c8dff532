// Package object handles objects of the Kubernetes API in any Go form: their JSON content, private
// copies, intents for server-side apply, merge patches and finalizers. Its functions send nothing.
// They keep no state except what they have found out about Go types.
package object
