package sandbox_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/sandbox/internal/leftover"
	"github.com/evenkeel/evenkeel/sandbox/sandbox"
)

// strangerVariable makes this test program another user of the machine, who tries what
// TestAnotherUserGetsNothing gives him as JSON on standard input.
const strangerVariable = "EVENKEEL_SANDBOX_TEST_STRANGER"

// nobody is the user and group of the stranger.
const nobody = 65534

// target is what the stranger tries.
type target struct {
	Addresses []string // that something listens on
	Files     []string
	Processes []int
	// Cert and Key, in PEM, are a login that the stranger has. May be empty.
	Cert, Key []byte
}

// public is what a server may tell anybody.
var public = []string{"/version", "/healthz", "/livez", "/readyz"}

// TestAnotherUserGetsNothing boots a whole control plane, and tries as another user of the machine
// to use everything that listens, to read all files and to look into the processes.
func TestAnotherUserGetsNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may become another user")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only /proc tells what listens")
	}
	// Folders that another user can look into: nothing but the modes of ours keeps him out.
	folder := openFolder(t)
	existing := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(existing, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(existing) // as somebody who waits for what will be in it
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	t.Setenv("TMPDIR", folder)
	plane := start(t, sandbox.Options{
		APIServers: 2, Kubeconfig: existing, AuditLog: filepath.Join(folder, "audit.log"),
		Logs: filepath.Join(folder, "logs"), Data: filepath.Join(folder, "data"),
	})
	kubectl(t, plane, "create", "secret", "generic", "safe", "--from-literal=key=correct-horse")

	pids := processes(t, plane)
	tried := target{Addresses: listeners(t, pids), Files: files(t, folder), Processes: pids}
	if len(tried.Addresses) < 5 || len(tried.Files) < 20 || len(pids) < 6 {
		t.Fatalf("there is more than %+v", tried)
	}
	if got := stranger(t, tried); got != "" {
		t.Errorf("another user can\n%s", got)
	}
	t.Run("with a login of the cluster", func(t *testing.T) {
		tried := target{Addresses: tried.Addresses}
		tried.Cert, tried.Key = login(t, plane)
		if got := stranger(t, tried); got != "" {
			t.Errorf("a user without rights can\n%s", got)
		}
	})
	t.Run("the arguments hold no secret", func(t *testing.T) { checkArguments(t, pids, folder) })
	if content, err := io.ReadAll(before); err != nil || len(content) > 0 {
		t.Errorf("who has had the file open now reads %d bytes of the kubeconfig, %v", len(content), err)
	}
}

// TestTheStrangerFindsWhatIsOpen is what makes the silence of the test above mean something.
func TestTheStrangerFindsWhatIsOpen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may become another user")
	}
	folder := openFolder(t)
	file := filepath.Join(folder, "open")
	if err := os.WriteFile(file, []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	etcd := filepath.Join(folder, "etcd")
	binary, err := sandbox.FindBinary(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, etcd); err != nil {
		t.Fatal(err)
	}
	open := exec.Command(etcd, "--data-dir="+filepath.Join(folder, "data"), "--listen-client-urls=http://127.0.0.1:0",
		"--advertise-client-urls=http://127.0.0.1:0", "--listen-peer-urls=http://127.0.0.1:0")
	if err := open.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = open.Process.Kill()
		_ = open.Wait() // it is killed
	}()
	pids := []int{open.Process.Pid}
	var got string
	eventually(t, func() error {
		if got = stranger(t, target{Addresses: listeners(t, pids), Files: []string{file}}); !strings.Contains(got, "KV/Range") {
			return errors.New("he does not find etcd open: " + got)
		}
		return nil
	})
	for _, part := range []string{"open", "/members", "/metrics"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q lacks %q", got, part)
		}
	}
}

// openFolder is a temporary folder that everybody can look into.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/tmp", "evenkeel-open-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func processes(t *testing.T, plane *sandbox.ControlPlane) []int {
	t.Helper()
	pids, err := leftover.Processes(plane.Folder())
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// listeners returns the addresses that the processes listen on: of TCP, as host:port, and of
// unix sockets, as a path.
func listeners(t *testing.T, pids []int) []string {
	t.Helper()
	sockets := map[string]bool{}
	for _, pid := range pids {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links {
			if socket, err := os.Readlink(link); err == nil {
				sockets[strings.TrimSuffix(strings.TrimPrefix(socket, "socket:["), "]")] = true
			}
		}
	}
	var all []string
	for _, table := range []string{"tcp", "tcp6"} {
		for _, fields := range rows(t, table) { // sl local remote state ... inode
			if len(fields) > 9 && fields[3] == "0A" && sockets[fields[9]] {
				_, hex, _ := strings.Cut(fields[1], ":")
				port, err := strconv.ParseUint(hex, 16, 16)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprintf("127.0.0.1:%d", port))
			}
		}
	}
	for _, fields := range rows(t, "unix") { // num refs protocol flags type state inode path
		if len(fields) > 7 && fields[3] == "00010000" && sockets[fields[6]] {
			all = append(all, fields[7])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func rows(t *testing.T, table string) [][]string {
	t.Helper()
	content, err := os.ReadFile("/proc/net/" + table)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for line := range strings.Lines(string(content)) {
		all = append(all, strings.Fields(line))
	}
	return all
}

// files returns everything in a folder.
func files(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if path != folder && entry.Type()&fs.ModeSymlink == 0 {
			all = append(all, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // etcd renames files of its log
		t.Fatal(err)
	}
	return all
}

// login is a certificate by which kube-apiserver knows a user without rights.
func login(t *testing.T, plane *sandbox.ControlPlane) (cert, key []byte) {
	t.Helper()
	content, err := plane.KubeconfigFor("stranger")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			continue // another field
		}
		switch name {
		case "client-certificate-data":
			cert = decoded
		case "client-key-data":
			key = decoded
		}
	}
	return cert, key
}

// checkArguments looks at what everybody can see of processes for anything that keys or tokens
// consist of: all arguments are short, or paths.
func checkArguments(t *testing.T, pids []int, folder string) {
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, argument := range strings.Split(string(content), "\x00") {
			_, value, _ := strings.Cut(argument, "=")
			if len(value) > 60 && !strings.Contains(value, folder) || strings.Contains(argument, "BEGIN ") {
				t.Errorf("process %d has the argument %s", pid, argument)
			}
		}
	}
}

// stranger runs this program as another user and returns what that one could do.
func stranger(t *testing.T, tried target) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A copy that he may run.
	program := filepath.Join(openFolder(t), "stranger")
	content, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	input, err := json.Marshal(tried)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Dir = "/"
	cmd.Env = []string{strangerVariable + "=1"}
	cmd.Stdin = bytes.NewReader(input)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		t.Fatalf("the other user: %v", err)
	}
	return string(out)
}

// beStranger is the other user's program: it prints what it could do.
func beStranger() int {
	var tried target
	if err := json.NewDecoder(os.Stdin).Decode(&tried); err != nil || os.Getuid() != nobody {
		fmt.Fprintln(os.Stderr, os.Getuid(), err)
		return 1
	}
	for _, file := range tried.Files {
		if f, err := os.Open(file); err == nil {
			fmt.Println("read", file, f.Close())
		}
		if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
			fmt.Println("write", file, f.Close())
		}
	}
	for _, pid := range tried.Processes {
		for _, name := range []string{"environ", "mem", "maps"} {
			file := fmt.Sprintf("/proc/%d/%s", pid, name)
			if content, err := os.ReadFile(file); err == nil && len(content) > 0 {
				fmt.Println("read", file)
			}
		}
		if err := syscall.Kill(pid, 0); err == nil {
			fmt.Println("signal", pid)
		}
	}
	for _, address := range tried.Addresses {
		if !strings.HasPrefix(address, "127.") {
			if c, err := net.Dial("unix", address); err == nil {
				fmt.Println("connect to", address, c.Close())
			}
			continue
		}
		tryAddress(address, tried)
	}
	return 0
}

// tryAddress asks a server for everything that servers of a control plane have.
func tryAddress(address string, tried target) {
	config := &tls.Config{InsecureSkipVerify: true}
	if len(tried.Cert) > 0 {
		pair, err := tls.X509KeyPair(tried.Cert, tried.Key)
		if err != nil {
			panic(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	protocols := map[string]func(*http.Protocols){
		"HTTP/1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2": func(p *http.Protocols) { p.SetHTTP2(true); p.SetUnencryptedHTTP2(true) },
	}
	for name, set := range protocols {
		transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
		set(transport.Protocols)
		client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		for _, scheme := range []string{"http", "https"} {
			for _, path := range []string{
				"/", "/version", "/healthz", "/livez", "/readyz", "/health", "/metrics", "/debug/pprof/", "/debug/vars", "/debug/flags/v", "/configz",
				"/members", "/raft", "/raft/probing", "/v2/keys", "/v3/version", "/api", "/apis", "/api/v1/secrets", "/openapi/v2", "/logs/",
				"/pods", "/containerLogs/", "/exec/", "/flagz", "/statusz", "/stats/summary",
			} {
				if slices.Contains(public, path) || len(tried.Cert) > 0 && slices.Contains(forUsers, path) {
					continue
				}
				try200(client, name, http.MethodGet, scheme+"://"+address+path, nil)
			}
			try200(client, name, http.MethodPost, scheme+"://"+address+"/v3/kv/range", []byte(`{"key":"AA==","range_end":"AA=="}`))
			// RangeRequest{Key: "\x00", RangeEnd: "\x00"}: everything.
			try200(client, name, http.MethodPost, scheme+"://"+address+"/etcdserverpb.KV/Range", []byte("\x00\x00\x00\x00\x06\x0a\x01\x00\x12\x01\x00"))
		}
		transport.CloseIdleConnections()
	}
}

// forUsers is what every user of a cluster may know.
var forUsers = []string{"/api", "/apis", "/openapi/v2"}

func try200(client *http.Client, protocol, method, url string, body []byte) {
	request, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	if strings.Contains(url, "etcdserverpb") {
		request.Header.Set("Content-Type", "application/grpc")
		request.Header.Set("TE", "trailers")
	}
	response, err := client.Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	content, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // what came before an error counts
	if response.StatusCode < http.StatusBadRequest {
		fmt.Printf("%s %s by %s: %d, %d bytes\n", method, url, protocol, response.StatusCode, len(content))
	}
}
