package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/redisquota"
)

// call sends a request every two seconds, on average, until stdin ends.
func call(target, redis string, stdin io.Reader) error {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return retrip.Gated() }}
	if redis != "" {
		client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{redis}})
		defer client.Close()
		shared, err := redisquota.New(client, redisquota.Options{Prefix: "example"})
		if err != nil {
			return err
		}
		defer shared.Close()
		transport.PerKey = func(key string) *retrip.Strategy {
			s := retrip.Gated()
			s.Quota = shared.Quota(key)
			return s
		}
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		close(ended)
	}()
	for n := 0; ; n++ {
		go send(transport, target, fmt.Sprintf("%d-%d", os.Getpid(), n))
		select {
		case <-ended:
			return nil
		case <-time.After(time.Duration(rand.ExpFloat64() * float64(2*time.Second))):
		}
	}
}

func send(transport *retrip.Transport, target, id string) {
	req, err := http.NewRequest(http.MethodGet, target, nil)
	if err != nil {
		return
	}
	req.Header.Set("X-Request-Id", id)
	if resp, err := transport.RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}
