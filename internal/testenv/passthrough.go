package testenv

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	maxMessage = math.MaxInt32
	// watchMethod is etcd's only one that delivers events.
	watchMethod = "/etcdserverpb.Watch/Watch"
)

// newPassThrough returns a server that makes every call to it at the target, message by message and
// unread, and lets the answers of watches wait at a gate.
func newPassThrough(target *grpc.ClientConn, watches *gate) *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		// As etcd does; the default would turn away clients that ask often whether we live.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.UnknownServiceHandler(func(_ any, client grpc.ServerStream) error { return passCall(target, watches, client) }),
	)
}

// passCall makes one call at the target.
func passCall(target *grpc.ClientConn, watches *gate, client grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(client)
	if !ok {
		return status.Error(codes.Internal, "testenv: a call without a method")
	}
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	if sent, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, sent.Copy())
	}
	server, err := target.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	// It ends with the client's stream at the latest, which ends when we return.
	go func() {
		if err := passRequests(client, server); err != nil {
			cancel()
		}
	}()
	err = passAnswers(ctx, server, client, method == watchMethod, watches)
	client.SetTrailer(server.Trailer())
	return err
}

func passRequests(client grpc.ServerStream, server grpc.ClientStream) error {
	for {
		var message raw
		if err := client.RecvMsg(&message); errors.Is(err, io.EOF) {
			return server.CloseSend()
		} else if err != nil {
			return err
		}
		if err := server.SendMsg(&message); err != nil {
			return err
		}
	}
}

func passAnswers(ctx context.Context, server grpc.ClientStream, client grpc.ServerStream, isWatch bool, watches *gate) error {
	for first := true; ; first = false {
		var message raw
		if err := server.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if first {
			header, err := server.Header()
			if err != nil {
				return err
			}
			if err := client.SetHeader(header); err != nil {
				return err
			}
		}
		if isWatch {
			if err := watches.pass(ctx); err != nil {
				return err
			}
		}
		if err := client.SendMsg(&message); err != nil {
			return err
		}
	}
}

// raw is a message nobody reads.
type raw struct{ bytes []byte }

// rawCodec takes and gives raw messages.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*raw).bytes)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	v.(*raw).bytes = data.Materialize()
	return nil
}

// gate is open or shut.
type gate struct {
	mu     sync.Mutex    // guards below
	opened chan struct{} // closed when open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

// pass waits until the gate is open.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}
