package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// etcd is one, at a socket in a folder of its own, that other users of the machine cannot reach. We
// speak with it through its JSON gateway.
type etcd struct {
	*process
	folder string
	http   *http.Client
}

// newEtcd returns one that keeps all it has in the folder, which it makes.
func newEtcd(folder string) (*etcd, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("testenv: make the folder of etcd: %w", err)
	}
	e := &etcd{folder: folder}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.socket())
	}
	// A connection that is kept may be one to an etcd that has been killed.
	e.http = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	e.process = newProcess(
		folder, "etcd",
		"--data-dir="+e.data(),
		"--listen-client-urls="+e.url(), "--advertise-client-urls="+e.url(),
		// The only member never talks to a peer, but etcd insists on listening.
		"--listen-peer-urls=http://127.0.0.1:0",
		"--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380",
		"--unsafe-no-fsync=true", // data survives the end of etcd, not that of the machine
		// The only member waits for nobody's vote: elect at once.
		"--heartbeat-interval=50", "--election-timeout=250",
		"--log-level=warn",
	)
	return e, nil
}

func (e *etcd) data() string   { return filepath.Join(e.folder, "data") }
func (e *etcd) socket() string { return filepath.Join(e.folder, "socket") }
func (e *etcd) url() string    { return "unix://" + e.socket() }

func (e *etcd) start() error { return e.process.start(e.http, "http://etcd/health") }

// call sends a request to the gateway. The caller closes the answer.
func (e *etcd) call(ctx context.Context, path string, body any) (io.ReadCloser, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd"+path, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	answer, err := e.http.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	why, err := io.ReadAll(answer.Body)
	return nil, errors.Join(fmt.Errorf("etcd: %s: %s", answer.Status, strings.TrimSpace(string(why))), err, answer.Body.Close())
}

// header is in every answer. Numbers of 64 bits are strings in etcd's JSON, and bytes base64.
type header struct {
	Revision int64 `json:"revision,string"`
}

// everyKey is a range of all keys: the first possible key, and etcd's sign for no end.
var everyKey = []byte{0}

// revision is that of the last write, as a quorum says.
func (e *etcd) revision(ctx context.Context) (revision int64, err error) {
	body, err := e.call(ctx, "/v3/kv/range", map[string]any{"key": everyKey, "range_end": everyKey, "count_only": true})
	if err != nil {
		return 0, fmt.Errorf("testenv: read etcd's revision: %w", err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	var answer struct {
		Header header `json:"header"`
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("testenv: read etcd's revision: %w", err)
	}
	return answer.Header.Revision, nil
}

// keyValue is a key as etcd stores it.
type keyValue struct {
	Key            []byte `json:"key"`
	CreateRevision int64  `json:"create_revision,string"`
	ModRevision    int64  `json:"mod_revision,string"`
	Value          []byte `json:"value"`
}

// watchEvent is one write.
type watchEvent struct {
	Type string    `json:"type"` // "DELETE", or nothing for a put
	KV   keyValue  `json:"kv"`
	Prev *keyValue `json:"prev_kv"` // unless it is compacted
}

// watchMessage is one line of a watch.
type watchMessage struct {
	Result struct {
		Events       []watchEvent `json:"events"`
		Canceled     bool         `json:"canceled"`
		CancelReason string       `json:"cancel_reason"`
		// CompactRevision is set if etcd has no events before it.
		CompactRevision int64 `json:"compact_revision,string"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

// watch follows all keys from a revision on. The events of one revision are in one message, in
// order. The caller closes the stream.
func (e *etcd) watch(ctx context.Context, revision int64) (io.ReadCloser, error) {
	return e.call(ctx, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key": everyKey, "range_end": everyKey, "start_revision": revision, "prev_kv": true,
	}})
}
