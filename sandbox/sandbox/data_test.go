package sandbox

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDataFolderIsLockedAndRemembersItsVersion(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	lock, err := openData(folder, "v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openData(folder, "v1.37.1"); !errors.Is(err, ErrDataInUse) || !strings.Contains(err.Error(), folder) {
		t.Errorf("a folder in use: got %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := openData(folder, "v1.37.1"); err != nil {
		t.Errorf("the second time: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	_, err = openData(folder, "v1.38.0")
	if !errors.Is(err, ErrDataForeign) {
		t.Fatalf("another version: got %v", err)
	}
	for _, want := range []string{folder, "v1.37.1", "v1.38.0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

func TestForeignDataFolderIsRefused(t *testing.T) {
	for name, content := range map[string]map[string]string{
		"somebody's files": {"thesis.txt": "x"},
		"another format":   {recordFile: `{"format": 99, "kubernetes": "v1.37.1"}`},
		"a damaged record": {recordFile: `{`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, text := range content {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := openData(folder, "v1.37.1"); !errors.Is(err, ErrDataForeign) || !strings.Contains(err.Error(), folder) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(folder, lockFile)); !errors.Is(err, os.ErrNotExist) {
				t.Error("the refused folder was written to")
			}
		})
	}
}

func TestDataFolderOfARunThatWasKilledEarlyIsUsed(t *testing.T) {
	folder := t.TempDir()
	for _, file := range []string{lockFile, recordFile + unfinished} {
		if err := os.WriteFile(filepath.Join(folder, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := openData(folder, "v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if fresh, err := checkRecord(folder, "v1.37.1", false); fresh || err != nil {
		t.Errorf("got %t, %v", fresh, err)
	}
}

func TestAFileIsWrittenWholeOrNotAtAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := writeWhole(file, []byte("first")); err != nil {
		t.Fatal(err)
	}
	// The next attempt fails halfway.
	if err := os.Mkdir(file+unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeWhole(file, []byte("second")); err == nil {
		t.Error("no error")
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "first" {
		t.Errorf("got %q, %v", content, err)
	}
	if _, err := os.Stat(file + unfinished); !errors.Is(err, os.ErrNotExist) {
		t.Error("half a file is left")
	}
}

func TestDataFolderThatIsAFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(file, "v1.37.1"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestTooLittleSpaceNamesFolderAndAmounts(t *testing.T) {
	err := spaceError("/data", 100<<20)
	if !errors.Is(err, ErrDiskFull) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"/data", "100 MiB", "256 MiB"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if err := spaceError("/data", minFree); err != nil {
		t.Errorf("just enough: %v", err)
	}
	if err := checkSpace(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing folder has space")
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, err = pickPorts(1, l.Addr().(*net.TCPAddr).Port)
	if !errors.Is(err, ErrPortTaken) || !strings.Contains(err.Error(), "port "+port) {
		t.Errorf("got %v", err)
	}
}

func TestPortsAreDistinct(t *testing.T) {
	p, err := pickPorts(3, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range append(p.apiservers, p.etcd, p.controllerManager, p.scheduler) {
		if port == 0 || seen[port] {
			t.Errorf("port %d in %+v", port, p)
		}
		seen[port] = true
	}
	if len(seen) != 6 {
		t.Errorf("got %+v", p)
	}
}

func TestPKIIsMadeOnceAndTrusted(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pki")
	first, err := openPKI(folder)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openPKI(folder)
	if err != nil {
		t.Fatal(err)
	}
	if !first.cert.Equal(again.cert) {
		t.Error("the authority was made anew: the data's tokens and kubeconfigs would be void")
	}
	roots := x509.NewCertPool()
	roots.AddCert(again.cert)
	content, err := os.ReadFile(filepath.Join(folder, fileServer))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	server, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc"} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	info, err := os.Stat(filepath.Join(folder, fileCAKey))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authority's key: %v, %v", info.Mode(), err)
	}
}

func TestLogTailIsTheLastLines(t *testing.T) {
	var lines []string
	for range 30 {
		lines = append(lines, "early")
	}
	lines = append(lines, "the reason")
	got := tail("x.log", []byte(strings.Join(lines, "\n")+"\n"))
	if !strings.HasSuffix(got, "  the reason") || strings.Count(got, "early") != tailLines-1 || !strings.Contains(got, "x.log") {
		t.Errorf("got %s", got)
	}
	if got := tail("x.log", []byte(" \n")); !strings.Contains(got, "empty") {
		t.Errorf("got %s", got)
	}
	if got := logTail(filepath.Join(t.TempDir(), "missing")); !strings.Contains(got, "no log") {
		t.Errorf("got %s", got)
	}
	huge := filepath.Join(t.TempDir(), "huge.log")
	if err := os.WriteFile(huge, []byte(strings.Repeat("x", 10*tailBytes)+"\nthe reason\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := logTail(huge); !strings.HasSuffix(got, "the reason") || len(got) > 2*tailBytes {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestOnlyReadyUntaintedNodesAreSchedulable(t *testing.T) {
	var l nodeList
	err := json.Unmarshal([]byte(`{"items": [
		{"status": {"conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}},
		{"status": {"conditions": [{"type": "Ready", "status": "True"}]},
		 "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}},
		{"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
		{}
	]}`), &l)
	if err != nil {
		t.Fatal(err)
	}
	if got := l.schedulable(); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}
