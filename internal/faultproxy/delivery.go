package faultproxy

import (
	"context"
	"io"
	"time"
)

// delivery is the body of a watch's answer: it reads the server's stream into a flow as it comes,
// and hands out what the flow lets pass.
type delivery struct {
	ctx      context.Context // the request's
	flow     *flow
	upstream io.ReadCloser // frame by frame
	framing  framing
	read     chan struct{} // closed when upstream has been read to its end
	pending  []byte
	ended    func() // called when a fault ends the stream
}

// deliver starts reading the server's stream.
func deliver(ctx context.Context, f *flow, framing framing, body io.ReadCloser, ended func()) (*delivery, error) {
	frame, err := framing.encode(expired())
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.expired = framing.wire(frame)
	f.mu.Unlock()
	d := &delivery{ctx: ctx, flow: f, upstream: framing.frames(body), framing: framing, read: make(chan struct{}), ended: ended}
	go d.receive()
	return d, nil
}

// receive never waits for the client, so that what a fault holds back has its true time of arrival.
func (d *delivery) receive() {
	defer close(d.read)
	for {
		frame, err := readFrame(d.upstream)
		if err != nil {
			d.flow.finish(err, time.Now())
			return
		}
		kind, err := d.framing.kindOf(frame)
		if err != nil {
			d.flow.finish(err, time.Now())
			return
		}
		d.flow.arrive(d.framing.wire(frame), kind, time.Now())
	}
}

// Read hands out what is due; any error but io.EOF breaks the client's stream.
func (d *delivery) Read(p []byte) (n int, err error) {
	if len(d.pending) == 0 {
		if d.pending, err = d.wait(); err != nil {
			return 0, err
		}
	}
	for {
		copied := copy(p[n:], d.pending)
		d.pending = d.pending[copied:]
		if n += copied; n == len(p) {
			return n, nil
		}
		// What else is due goes with it; an end is met again by the next Read.
		if d.pending, _, _ = d.flow.next(time.Now()); len(d.pending) == 0 {
			return n, nil
		}
	}
}

// wait returns the next frame when it is due, or the end of the stream.
func (d *delivery) wait() ([]byte, error) {
	for {
		now := time.Now()
		frame, wake, end := d.flow.next(now)
		if end != nil {
			d.ended()
			return nil, end
		}
		if frame != nil {
			return frame, nil
		}
		if err := d.sleep(wake, now); err != nil {
			return nil, err
		}
	}
}

// sleep waits until the flow may answer otherwise.
func (d *delivery) sleep(wake, now time.Time) error {
	var due <-chan time.Time
	if !wake.IsZero() {
		timer := time.NewTimer(wake.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-d.flow.changed:
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	return nil
}

// Close ends the server's stream and waits until nothing reads it any more.
func (d *delivery) Close() error {
	err := d.upstream.Close()
	<-d.read
	return err
}
