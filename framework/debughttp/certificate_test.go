package debughttp

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The files are replaced one after the other, by what does not fit for a moment, and may be gone.
func TestCertificatesRotate(t *testing.T) {
	dir := t.TempDir()
	pair := &keyPair{certFile: filepath.Join(dir, "tls.crt"), keyFile: filepath.Join(dir, "tls.key")}
	certOne, keyOne := certify(t, "one")
	certTwo, keyTwo := certify(t, "two")
	synctest.Test(t, func(t *testing.T) {
		write := func(file, text string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			if err := os.Chtimes(file, now, now); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(what, want string) {
			t.Helper()
			c, err := pair.certificate(nil)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := c.Leaf.Subject.CommonName; got != want {
				t.Errorf("%s: the certificate of %s, want that of %s", what, got, want)
			}
		}
		write(pair.certFile, certOne)
		write(pair.keyFile, keyOne)
		expect("at first", "one")
		time.Sleep(time.Minute)
		write(pair.certFile, certTwo)
		expect("while the key is the old one", "one")
		time.Sleep(time.Second)
		write(pair.keyFile, keyTwo)
		expect("a second later, before they are looked at again", "one")
		time.Sleep(recheck)
		expect("after that", "two")
		if err := os.Remove(pair.keyFile); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect("without a key", "two")
	})
}
