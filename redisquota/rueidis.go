package redisquota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Rueidis makes a Client of a rueidis client, which stays yours to close.
func Rueidis(client rueidis.Client) Client {
	if client == nil {
		return nil
	}
	return &ours{client: client, script: rueidis.NewLuaScript(Script)}
}

type ours struct {
	client rueidis.Client
	script *rueidis.Lua
}

func (o *ours) Eval(ctx context.Context, _, key string, args ...string) ([]int64, error) {
	return o.script.Exec(ctx, o.client, []string{key}, args).AsIntSlice()
}

// DialRueidis makes a Client that connects when it is first needed, and again, at most
// once a second, until it succeeds: so Redis may be down when the program starts. The
// option is rueidis's own, for a server, Sentinel, a cluster, TLS and users. The script
// needs no client-side caching, which is off, nor a retry. What the option leaves open
// is chosen for little traffic: one connection to each server, and buffers of 16 KiB
// and not 512. Close ends the connection.
func DialRueidis(option rueidis.ClientOption) *LazyRueidis {
	option.DisableCache = true
	option.DisableRetry = true
	option.PipelineMultiplex = cmp.Or(option.PipelineMultiplex, -1)
	option.RingScaleEachConn = cmp.Or(option.RingScaleEachConn, 7)
	option.ReadBufferEachConn = cmp.Or(option.ReadBufferEachConn, 16<<10)
	option.WriteBufferEachConn = cmp.Or(option.WriteBufferEachConn, 16<<10)
	return &LazyRueidis{option: option}
}

// LazyRueidis is a Client that connects when it is first needed. It is safe for
// concurrent use. Make it with DialRueidis.
type LazyRueidis struct {
	option rueidis.ClientOption

	mu      sync.Mutex
	client  Client
	close   func()
	err     error     // why there is no connection
	tried   time.Time // when
	dialing chan struct{}
	closed  bool
}

var errNotConnected = errors.New("not connected yet")

// Eval runs the script.
func (l *LazyRueidis) Eval(ctx context.Context, script, key string, args ...string) ([]int64, error) {
	client, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	return client.Eval(ctx, script, key, args...)
}

// connected returns the client, having waited for a dial until ctx ends.
func (l *LazyRueidis) connected(ctx context.Context) (Client, error) {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return nil, errors.New("the client is closed")
	case l.client != nil:
		defer l.mu.Unlock()
		return l.client, nil
	}
	if l.dialing == nil && time.Since(l.tried) > blindTime {
		l.dialing, l.tried = make(chan struct{}), time.Now()
		go l.dial(l.dialing)
	}
	dialing := l.dialing
	l.mu.Unlock()
	if dialing != nil {
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errNotConnected, ctx.Err())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.client != nil:
		return l.client, nil
	case l.err != nil:
		return nil, l.err
	}
	return nil, errNotConnected
}

func (l *LazyRueidis) dial(done chan struct{}) {
	client, err := rueidis.NewClient(l.option)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	l.dialing, l.err = nil, err
	switch {
	case err != nil:
	case l.closed:
		client.Close()
	default:
		l.client, l.close = Rueidis(client), client.Close
	}
}

// Close closes the connection, if there is one. A dial that is under way is closed
// when it is through. It returns nil.
func (l *LazyRueidis) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.close != nil {
		l.close()
		l.client, l.close = nil, nil
	}
	return nil
}
