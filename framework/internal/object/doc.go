// Package object has what the other rooms need to handle objects of the Kubernetes API, of any Go form: their JSON content, private
// copies, intents for server-side apply, merge patches, finalizers. Its functions are pure: they send nothing and keep nothing (but
// for what a Go type looks like).
package object
