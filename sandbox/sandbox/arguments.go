package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The names of the components. A further kube-apiserver number N is
// "kube-apiserver-N".
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

const localhost = "127.0.0.1"

// layout is where everything of one control plane is. It is plain data, so that
// the arguments of the components are a pure function of options and layout.
type layout struct {
	work  string // temporary: kubeconfigs of components, audit policy, etcd's certificates
	logs  string // of the components
	state string // etcd's data and the PKI; kept with Options.Data
	ports ports
}

func (l layout) pki(file string) string        { return filepath.Join(l.state, "pki", file) }
func (l layout) etcdData() string              { return filepath.Join(l.state, "etcd") }
func (l layout) log(component string) string   { return filepath.Join(l.logs, component+".log") }
func (l layout) login(component string) string { return filepath.Join(l.work, component+".kubeconfig") }
func (l layout) auditPolicy() string           { return filepath.Join(l.work, "audit-policy.yaml") }
func (l layout) etcdPKI(file string) string    { return filepath.Join(l.work, "etcd-pki", file) }
func (l layout) etcdURL() string               { return "https://" + address(l.ports.etcd) }
func (l layout) server(number int) string      { return "https://" + address(l.ports.apiservers[number-1]) }

func address(port int) string { return localhost + ":" + strconv.Itoa(port) }

func etcdArguments(o Options, l layout) []string {
	arguments := []string{
		"--name=sandbox",
		"--data-dir=" + l.etcdData(),
		"--listen-client-urls=" + l.etcdURL(),
		"--advertise-client-urls=" + l.etcdURL(),
		// Who reads etcd reads every Secret, and who writes it is an administrator. So it serves only
		// who has a certificate of its own authority, whose keys are in a folder that only we can read.
		"--client-cert-auth=true",
		"--trusted-ca-file=" + l.etcdPKI(fileCA),
		"--cert-file=" + l.etcdPKI(fileServer),
		"--key-file=" + l.etcdPKI(fileServerKey),
		"--enable-grpc-gateway=false",
		// The only member never talks to a peer, but etcd insists on listening.
		"--listen-peer-urls=https://" + localhost + ":0",
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + l.etcdPKI(fileCA),
		"--peer-cert-file=" + l.etcdPKI(fileServer),
		"--peer-key-file=" + l.etcdPKI(fileServerKey),
		"--initial-advertise-peer-urls=http://" + localhost + ":2380",
		"--initial-cluster=sandbox=http://" + localhost + ":2380",
		"--log-level=warn",
		"--logger=zap",
		"--log-outputs=stderr",
		// The only member waits for nobody's vote: elect at once.
		"--heartbeat-interval=50",
		"--election-timeout=250",
	}
	if !o.EtcdFsync {
		arguments = append(arguments, "--unsafe-no-fsync=true")
	}
	return arguments
}

func apiServerArguments(o Options, l layout, number int) []string {
	arguments := []string{
		"--bind-address=" + localhost,
		"--advertise-address=" + localhost,
		"--secure-port=" + strconv.Itoa(l.ports.apiservers[number-1]),
		"--etcd-servers=" + l.etcdURL(),
		"--etcd-cafile=" + l.etcdPKI(fileCA),
		"--etcd-certfile=" + l.etcdPKI(fileClient),
		"--etcd-keyfile=" + l.etcdPKI(fileClientKey),
		"--tls-cert-file=" + l.pki(fileServer),
		"--tls-private-key-file=" + l.pki(fileServerKey),
		"--client-ca-file=" + l.pki(fileCA),
		// For aggregated API servers, which believe kube-apiserver who the user is.
		"--requestheader-client-ca-file=" + l.pki(fileProxyCA),
		"--requestheader-allowed-names=" + proxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pki(fileProxy),
		"--proxy-client-key-file=" + l.pki(fileProxyKey),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.pki(fileSAKey),
		"--service-account-signing-key-file=" + l.pki(fileSAKey),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		// A loopback address may not be an endpoint, so the Service "kubernetes"
		// gets none; any other setting only logs that, over and over.
		"--endpoint-reconciler-type=none",
		// Stop at once: there is no load balancer that would have to notice first.
		"--shutdown-delay-duration=0s",
		"--shutdown-watch-termination-grace-period=0s",
		"--profiling=false",
	}
	if o.Minimal {
		// Without kube-controller-manager there are no service accounts, and the
		// plugin would refuse every pod for that.
		arguments = append(arguments, "--disable-admission-plugins=ServiceAccount")
	}
	if o.AuditLog != "" {
		arguments = append(arguments,
			"--audit-policy-file="+l.auditPolicy(),
			"--audit-log-path="+numbered(o.AuditLog, number),
			"--audit-log-maxsize=0", // one file, never rotated
		)
	}
	arguments = append(arguments, featureGates(o)...)
	return append(arguments, o.APIServerArgs...)
}

func controllerManagerArguments(o Options, l layout) []string {
	return append(controllerArguments(o, l, ControllerManager, l.ports.controllerManager),
		"--root-ca-file="+l.pki(fileCA),
		"--service-account-private-key-file="+l.pki(fileSAKey),
		"--cluster-signing-cert-file="+l.pki(fileCA),
		"--cluster-signing-key-file="+l.pki(fileCAKey),
		"--use-service-account-credentials=false",
	)
}

func schedulerArguments(o Options, l layout) []string {
	return controllerArguments(o, l, Scheduler, l.ports.scheduler)
}

// controllerArguments are what kube-controller-manager and kube-scheduler have in common.
func controllerArguments(o Options, l layout, component string, port int) []string {
	return append([]string{
		"--bind-address=" + localhost,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + l.pki(fileServer),
		"--tls-private-key-file=" + l.pki(fileServerKey),
		"--kubeconfig=" + l.login(component),
		"--authentication-kubeconfig=" + l.login(component),
		"--authorization-kubeconfig=" + l.login(component),
		"--leader-elect=false", // the only one
		// Upstream's client limits (20/s) protect big clusters, and would be what a
		// test here measures.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--profiling=false",
	}, featureGates(o)...)
}

func kwokArguments(o Options, l layout) []string {
	arguments := []string{
		"--kubeconfig=" + l.login(Kwok),
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
		"--config=sandbox:nodes", // see internal/components/stages.go
	}
	if len(o.Stages) == 0 {
		return append(arguments, "--config=sandbox:pods")
	}
	for _, file := range o.Stages {
		arguments = append(arguments, "--config="+file)
	}
	return arguments
}

func featureGates(o Options) []string {
	if len(o.FeatureGates) == 0 {
		return nil
	}
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, o.FeatureGates[name]))
	}
	return []string{"--feature-gates=" + strings.Join(gates, ",")}
}

// auditPolicy logs who did what, with the bodies of writes, but no secret.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/healthz*", "/readyz*", "/livez*"]
- level: Metadata
  resources:
  - {group: "", resources: [secrets, serviceaccounts/token]}
  - {group: authentication.k8s.io}
- level: Metadata
  verbs: [get, list, watch]
- level: RequestResponse
`
