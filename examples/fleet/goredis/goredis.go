// Package goredis lets redisquota use a client of go-redis. It is to be copied.
package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/retrip-go/retrip/redisquota"
)

// Client is a redisquota.Client. Make it with New.
type Client struct {
	client redis.UniversalClient
	script *redis.Script
}

// New makes a Client of one of go-redis, which must have ContextTimeoutEnabled: without
// it, go-redis waits for a server that hangs as long as its ReadTimeout says, several
// times over, whatever the context says. MaxRetries: -1 is right, too: the next report
// comes in half a second anyway.
func New(client redis.UniversalClient) *Client {
	return &Client{client, redis.NewScript(redisquota.Script)}
}

// Eval runs the script, which is always redisquota.Script.
func (c *Client) Eval(ctx context.Context, _, key string, args ...string) ([]int64, error) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	return c.script.Run(ctx, c.client, []string{key}, words...).Int64Slice()
}
