// Package portedtest holds real reconcilers of others, written again for this framework, and sends
// them through the test kit: the CronJob of kubebuilder's tutorial, and three samples of the Java
// Operator SDK.
//
// Each port decides as its original does, mistakes included; a comment at each names the file it
// follows. A test says at which points the kit finds it guilty, and another that the smallest mend
// makes it pass. docs/design/0022-real-reconcilers-in-the-kit.md lists what was found.
//
// The ports read what they wrote themselves, as everything does on this framework. What the
// originals do with older reads is not shown.
package portedtest
