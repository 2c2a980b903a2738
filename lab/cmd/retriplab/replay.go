package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrip-go/retrip/lab/internal/logs"
	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/report"
	"github.com/retrip-go/retrip/lab/internal/scenario"
)

// replay sends the requests of a log to a server that fails as it did.
func (c *command) replay(ctx context.Context) error {
	switch {
	case len(c.files) != 1:
		return fmt.Errorf("replay needs one log file, and %d are named: write retriplab replay -format combined FILE", len(c.files))
	case c.format == "":
		return errors.New("-format is missing: use combined, json or otlp")
	}
	for _, name := range []string{"clients", "rate", "load", "outage", "capacity"} {
		if c.set[name] {
			return fmt.Errorf("-%s can't be set in a replay: the log says it; leave it out", name)
		}
	}
	log, err := logs.Read(c.files[0], c.format)
	if err != nil {
		return err
	}
	policies, seeds := c.policies, c.seeds
	var strategy policy.Overrides
	if c.set["attempts"] {
		strategy.MaxAttempts = &c.attempts
	}
	if seeds == nil {
		seeds = []uint64{1, 2, 3}
	}
	all, estimate, err := scenario.FromLog(log, policies, strategy, seeds)
	if err != nil {
		return fmt.Errorf("%s: %w", c.files[0], err)
	}
	page := &report.Page{Title: "Replay of " + c.files[0], Notes: notes(log, estimate)}
	for _, s := range all {
		r, err := scenario.Run(ctx, s, c.progress(s.Name))
		if err != nil {
			return err
		}
		page.Reports = append(page.Reports, r)
		page.Pictures = append(page.Pictures, report.TimeLine(r), report.Durations(r))
	}
	page.Sentence = report.Sentence(page.Reports[0])
	return c.finish(page)
}

// notes say what the log tells and what is estimated.
func notes(log *logs.Log, e scenario.Estimate) []string {
	all := []string{
		fmt.Sprintf("The log has %d attempts of %d clients: %d requests and %d retries, %.2f attempts per request.", e.Attempts, e.Clients, e.Requests, e.Attempts-e.Requests, e.Amplification),
		fmt.Sprintf("Estimates: the server's capacity is taken as the most good answers that it gave in one second, %.0f, and its failures in each second as those of the log. A log can't say how the server would have answered another load: the truth may lie between the two runs, or beyond them.", e.Capacity),
	}
	if !log.Marked {
		all = append(all, "Estimate: the log does not say which attempts are retries. An attempt counts as one if the same client repeats a request that failed in the half minute before.")
	}
	if !log.Timed {
		all = append(all, "Estimate: the log does not say how long answers took: 5 ms.")
	}
	if log.Skipped > 0 {
		all = append(all, fmt.Sprintf("%d lines or spans could not be read and were left out.", log.Skipped))
	}
	return all
}
