package wire

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Way is how connections break.
type Way int

const (
	// Reset ends them with an RST on both sides: the client reads "connection reset by peer".
	Reset Way = iota
	// Close ends them with a FIN to the client, which reads the end in the midst of what it waits for,
	// and a reset of the server.
	Close
	// HalfClose ends what the server sends, with a FIN. What the client sends still arrives.
	HalfClose
	// CutRecord passes on the beginning of what is held of the server's, up to the midst of a TLS
	// record, and ends with a FIN. Without anything held it is Close.
	CutRecord
	// Corrupt passes on what is held of the server's with a byte of its first TLS record changed, and
	// ends with a FIN. Without anything held it is Close.
	Corrupt
)

// Ways are all ways to break connections, by their names.
func Ways() map[string]Way {
	return map[string]Way{
		"a reset": Reset, "an end": Close, "a half-closed connection": HalfClose,
		"a TLS record that is cut": CutRecord, "a TLS record that is wrong": Corrupt,
	}
}

// Wire is a listener whose connections lead to a server. Make it with [Start].
type Wire struct {
	config *rest.Config
	target string

	mu          sync.Mutex // guards everything below; a leaf
	changed     *sync.Cond
	listener    net.Listener // nil while nobody may connect
	address     string
	lines       map[*line]bool
	holdAnswers bool
	holdAsked   bool
	stopped     bool
	accepting   sync.WaitGroup
}

// line is one connection.
type line struct {
	wire           *Wire
	client, server *net.TCPConn
	asked, answers half
	ended          int // of its halves, guarded by the wire's mutex
}

// half is one direction of a connection. All but the first three is guarded by the wire's mutex.
type half struct {
	from, to *net.TCPConn
	holds    *bool // of the wire

	held    []byte
	flushes bool // a goroutine passes on what is held
	broken  bool // what comes is dropped
}

// Start returns a wire to the server of a config, which is not changed. The server must speak TLS,
// and its certificate be for its host name or address whatever the port.
func Start(config *rest.Config) (*Wire, error) {
	at, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("wire: host %q: %w", config.Host, err)
	}
	if at.Scheme != "https" || at.Port() == "" {
		return nil, fmt.Errorf("wire: host %q: want https and a port", config.Host)
	}
	w := &Wire{target: at.Host, lines: map[*line]bool{}, address: net.JoinHostPort("127.0.0.1", "0")}
	w.changed = sync.NewCond(&w.mu)
	if err := w.Accept(); err != nil {
		return nil, err
	}
	w.config = rest.CopyConfig(config)
	w.config.Host = "https://" + w.address
	if w.config.ServerName == "" {
		w.config.ServerName = at.Hostname()
	}
	return w, nil
}

// Config returns how to reach the server through the wire. It is the caller's.
func (w *Wire) Config() *rest.Config { return rest.CopyConfig(w.config) }

// Open returns the number of connections.
func (w *Wire) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.lines)
}

// Held returns the number of bytes that are held back, of both directions.
func (w *Wire) Held() (bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lines {
		bytes += len(l.answers.held) + len(l.asked.held)
	}
	return bytes
}

// HoldAnswers keeps what the server sends, in connections to come as well, until Release.
func (w *Wire) HoldAnswers() { w.hold(true, false) }

// HoldRequests keeps what the client sends, in connections to come as well, until Release.
func (w *Wire) HoldRequests() { w.hold(false, true) }

// Release ends both; what was held is passed on, unless its connection is broken.
func (w *Wire) Release() { w.hold(false, false) }

func (w *Wire) hold(answers, asked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holdAnswers, w.holdAsked = answers, asked
	w.changed.Broadcast()
}

// Refuse lets nobody connect: a dial is refused. Connections stay.
func (w *Wire) Refuse() {
	w.mu.Lock()
	listener := w.listener
	w.listener = nil
	w.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	w.accepting.Wait()
}

// Accept ends Refuse. It fails if another process has taken the port.
func (w *Wire) Accept() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil || w.stopped {
		return nil
	}
	listener, err := net.Listen("tcp", w.address)
	if err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	w.listener, w.address = listener, listener.Addr().String()
	w.accepting.Go(func() { w.accept(listener) })
	return nil
}

// Break ends all connections, and the holding back; those that come are whole. It returns how many
// there were.
func (w *Wire) Break(way Way) int {
	w.mu.Lock()
	n := len(w.lines)
	ends := make([]func(), 0, n)
	for l := range w.lines {
		held := l.answers.held
		l.answers.held, l.answers.broken = nil, true
		if way != HalfClose {
			l.asked.held, l.asked.broken = nil, true
		}
		ends = append(ends, func() { l.end(way, held) })
	}
	w.holdAnswers, w.holdAsked = false, false
	w.changed.Broadcast()
	w.mu.Unlock()
	for _, end := range ends {
		end()
	}
	return n
}

// Stop ends everything. It returns once nothing of the wire runs.
func (w *Wire) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.Refuse()
	w.Break(Reset)
}

func (w *Wire) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // that client is gone already
		}
		w.connect(client.(*net.TCPConn))
	}
}

func (w *Wire) connect(client *net.TCPConn) {
	server, err := net.Dial("tcp", w.target)
	if err != nil { // as a server does that is being killed
		reset(client)
		return
	}
	l := &line{wire: w, client: client, server: server.(*net.TCPConn)}
	l.asked = half{from: l.client, to: l.server, holds: &w.holdAsked}
	l.answers = half{from: l.server, to: l.client, holds: &w.holdAnswers}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		l.end(Reset, nil)
		return
	}
	w.lines[l] = true
	w.mu.Unlock()
	go l.pass(&l.asked)
	go l.pass(&l.answers)
}

// pass passes on what comes from one side until that ends. What is broken is read on, so that the
// peer does not wait.
func (l *line) pass(h *half) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := h.from.Read(buffer)
		if n > 0 {
			l.deliver(h, buffer[:n])
		}
		if err != nil {
			l.finish(h)
			return
		}
	}
}

// deliver passes bytes on, or has it done once they are not held back any more.
func (l *line) deliver(h *half, bytes []byte) {
	w := l.wire
	w.mu.Lock()
	if h.broken {
		w.mu.Unlock()
		return
	}
	if *h.holds || h.flushes {
		h.held = append(h.held, bytes...)
		if !h.flushes {
			h.flushes = true
			go l.flush(h)
		}
		w.mu.Unlock()
		return
	}
	w.mu.Unlock()
	_, _ = h.to.Write(bytes) // should that fail, the read of that side ends, too
}

// flush passes on what is held once it may be.
func (l *line) flush(h *half) {
	w := l.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	for !h.broken && (*h.holds || len(h.held) > 0) {
		if *h.holds {
			w.changed.Wait()
			continue
		}
		bytes := h.held
		h.held = nil
		w.mu.Unlock()
		_, _ = h.to.Write(bytes)
		w.mu.Lock()
	}
	h.flushes = false
	w.changed.Broadcast()
}

// finish passes an end on, after what came before it, and forgets the connection with the second
// one.
func (l *line) finish(h *half) {
	w := l.wire
	w.mu.Lock()
	for h.flushes {
		w.changed.Wait()
	}
	broken := h.broken
	l.ended++
	last := l.ended == 2
	if last {
		delete(w.lines, l)
	}
	w.mu.Unlock()
	if !broken {
		_ = h.to.CloseWrite()
	}
	if last {
		_ = l.client.Close()
		_ = l.server.Close()
	}
}

// end breaks the sockets. held is what was held of the server's.
func (l *line) end(way Way, held []byte) {
	switch way {
	case Reset:
		reset(l.client)
		reset(l.server)
		return
	case HalfClose:
		_ = l.client.CloseWrite()
		return
	case CutRecord:
		_, _ = l.client.Write(held[:midst(held)])
	case Corrupt:
		if len(held) > recordHeader {
			held[recordHeader] ^= 0xff
		}
		_, _ = l.client.Write(held)
	}
	// The client's side is read on until it ends: closed now, the kernel would reset it, and that
	// would overtake what was written.
	_ = l.client.CloseWrite()
	reset(l.server)
}

// recordHeader is how many bytes precede the content of a TLS record: its type, two of a version,
// two of its length.
const recordHeader = 5

// midst returns where the first of some TLS records is cut in two.
func midst(records []byte) int {
	if len(records) <= recordHeader {
		return len(records) / 2
	}
	length := int(records[3])<<8 | int(records[4])
	return min(recordHeader+length/2, len(records))
}

// reset closes a connection with an RST: with a FIN, the peer would take it for an orderly end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
