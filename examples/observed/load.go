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

// load calls all services for the given duration, or until ctx ends.
func load(ctx context.Context, client *http.Client, duration time.Duration) {
	end := time.Now().Add(duration)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { repeat(ctx, end, client, http.MethodGet, "http://catalog.example/items") })
		all.Go(func() { repeat(ctx, end, client, http.MethodGet, "http://search.example/?q=shoes") })
		all.Go(func() { repeat(ctx, end, client, http.MethodPut, "http://billing.example/invoices/7") })
	}
	all.Wait()
}

// repeat makes a request every 100 ms, about, until the end. It completes the
// last one: a request that we cancel would count as cancelled. If ctx ends, it
// cancels the request and returns at once.
func repeat(ctx context.Context, end time.Time, client *http.Client, method, url string) {
	for ctx.Err() == nil && time.Now().Before(end) {
		call(ctx, client, method, url)
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
