package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const callers = 10 // of each service

// load calls all services for a while.
func load(ctx context.Context, client *http.Client, duration time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { repeat(ctx, client, http.MethodGet, "http://catalog.example/items") })
		all.Go(func() { repeat(ctx, client, http.MethodGet, "http://search.example/?q=shoes") })
		all.Go(func() { repeat(ctx, client, http.MethodPut, "http://billing.example/invoices/7") })
	}
	all.Wait()
}

// repeat makes a request every 100 ms, about, until ctx ends. The one under way
// is not called off then: it would count as cancelled.
func repeat(ctx context.Context, client *http.Client, method, url string) {
	for ctx.Err() == nil {
		call(context.WithoutCancel(ctx), client, method, url)
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func call(ctx context.Context, client *http.Client, method, url string) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("please"))
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // the signals tell of it
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}
