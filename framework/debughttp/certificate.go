package debughttp

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// recheck is how often the files of a certificate are looked at.
const recheck = 10 * time.Second

// keyPair is a certificate in files that may be replaced.
type keyPair struct {
	certFile, keyFile string

	mu      sync.Mutex // guards everything below
	now     *tls.Certificate
	from    [2]time.Time // the times of the files that it was read from
	checked time.Time
}

// certificate returns the certificate as it is in the files now. While these cannot be read, as
// between the replacement of the one and of the other, it is the one before.
func (p *keyPair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && time.Since(p.checked) < recheck {
		return p.now, nil
	}
	p.checked = time.Now()
	err := p.readLocked()
	if p.now == nil {
		return nil, fmt.Errorf("debughttp: Options: CertFile %q, KeyFile %q: %w", p.certFile, p.keyFile, err)
	}
	return p.now, nil
}

func (p *keyPair) readLocked() error {
	var from [2]time.Time
	for i, file := range []string{p.certFile, p.keyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		from[i] = info.ModTime()
	}
	if p.now != nil && from == p.from {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	p.now, p.from = &pair, from
	return nil
}
