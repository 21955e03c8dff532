// Sandbox is a real Kubernetes control plane in one program: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, a simulated kubelet (kwok) and kubectl,
// all unchanged upstream code. It needs nothing but Go to build and nothing but
// itself to run:
//
//	go run github.com/evenkeel/evenkeel/sandbox@latest up -- go test ./...
//
// `sandbox help` tells the rest. To start one from a program or test, import
// github.com/evenkeel/evenkeel/sandbox/sandbox.
package main
