package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/report"
	"github.com/retrip-go/retrip/lab/internal/scenario"
)

// classic makes the report that argues for a quota.
func (c *command) classic(ctx context.Context) error {
	page := &report.Page{Title: "What retries do in an outage", Extra: map[string]any{}}
	first, err := c.loadScenario("refused")
	if err != nil {
		return err
	}
	for _, name := range scenario.Builtin() {
		s, err := scenario.Load(name)
		if name == "refused" || name == "brownout-late" {
			if s, err = c.loadScenario(name); errors.Is(err, errNoCapacity) {
				s, err = scenario.Load(name)
			}
		}
		if err != nil {
			return err
		}
		r, err := scenario.Run(ctx, s, c.progress(name))
		if err != nil {
			return err
		}
		page.Reports = append(page.Reports, r)
	}
	if err := c.classicPictures(ctx, page, first); err != nil {
		return err
	}
	page.Sentence = report.Sentence(reportOf(page, "refused")) + " " + report.Sentence(reportOf(page, "brownout-late"))
	return c.finish(page)
}

func reportOf(page *report.Page, name string) *scenario.Report {
	for _, r := range page.Reports {
		if r.Scenario.Name == name {
			return r
		}
	}
	return page.Reports[0]
}

func (c *command) classicPictures(ctx context.Context, page *report.Page, s *scenario.Scenario) error {
	refused, late := reportOf(page, "refused"), reportOf(page, "brownout-late")
	failures, err := scenario.OverFailures(ctx, s, c.progress("failure rates"))
	if err != nil {
		return err
	}
	clients, err := scenario.OverClients(ctx, s, c.progress("clients"))
	if err != nil {
		return err
	}
	loops, err := scenario.Metastable(ctx, s, c.progress("load up and down"))
	if err != nil {
		return err
	}
	maps, err := scenario.RecoveryMap(ctx, s, c.progress("recovery"))
	if err != nil {
		return err
	}
	trades, err := scenario.Trades(ctx, s, c.progress("cost and benefit"))
	if err != nil {
		return err
	}
	page.Pictures = []*report.Picture{
		report.TimeLine(refused), report.TimeLine(late), report.OverFailures(failures), report.OverClients(clients),
		report.Loops(loops), report.Maps(maps), report.Pareto(trades), report.Durations(refused), report.Levels(refused),
	}
	page.Extra["failures"], page.Extra["clients"], page.Extra["loop"] = failures, clients, loops
	page.Extra["recovery"], page.Extra["pareto"] = maps, trades
	return nil
}

// run makes a report of scenarios.
func (c *command) run(ctx context.Context) error {
	if len(c.files) == 0 {
		return fmt.Errorf("run needs a scenario: name a file, or one of %s", strings.Join(scenario.Builtin(), ", "))
	}
	page := &report.Page{Title: "What retries do"}
	if err := c.runAll(ctx, page, c.files); err != nil {
		return err
	}
	return c.finish(page)
}

func (c *command) runAll(ctx context.Context, page *report.Page, names []string) error {
	var all []*scenario.Scenario
	for _, name := range names { // mistakes come out before the first takes its time
		s, err := c.loadScenario(name)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for _, s := range all {
		r, err := scenario.Run(ctx, s, c.progress(s.Name))
		if err != nil {
			return err
		}
		page.Reports = append(page.Reports, r)
		if len(names) <= 4 {
			page.Pictures = append(page.Pictures, report.TimeLine(r), report.Durations(r), report.Levels(r))
		}
	}
	if len(all) == 1 {
		page.Title = all[0].Title
	}
	page.Sentence = report.Sentence(page.Reports[0])
	return nil
}

// compare makes a report of chosen policies.
func (c *command) compare(ctx context.Context) error {
	if len(c.policies) < 2 {
		return fmt.Errorf("compare needs two policies: use -policy twice, with names that retriplab list has")
	}
	names := c.files
	if len(names) == 0 {
		names = scenario.Builtin()
	}
	var compared []string
	for _, p := range c.policies {
		compared = append(compared, p.Name)
	}
	page := &report.Page{Title: "Compared: " + strings.Join(compared, ", ")}
	if err := c.runAll(ctx, page, names); err != nil {
		return err
	}
	if len(names) > 4 {
		for _, r := range page.Reports {
			page.Pictures = append(page.Pictures, report.TimeLine(r))
		}
		page.Sentence = report.Sentence(reportOf(page, "refused"))
	}
	return c.finish(page)
}

func (c *command) list() error {
	fmt.Fprintln(c.stdout, "Scenarios:")
	for _, name := range scenario.Builtin() {
		s, err := scenario.Load(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "  %-18s %s\n", name, s.Title)
	}
	fmt.Fprintln(c.stdout, "\nPolicies:")
	for _, name := range policy.Names() {
		fmt.Fprintf(c.stdout, "  %-28s %s\n", name, policy.About(name))
	}
	return nil
}

// show prints the file of a built-in scenario.
func (c *command) show() error {
	if len(c.files) != 1 {
		return errors.New("show needs one scenario: use a name that retriplab list has")
	}
	text, err := scenario.Text(c.files[0])
	if err != nil {
		return err
	}
	_, err = c.stdout.Write(text)
	return err
}

// progress tells how far a part is, if standard error is a terminal.
func (c *command) progress(part string) func(done, of int) {
	f, ok := c.stderr.(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(done, of int) {
		end := "\r"
		if done == of {
			end = "\r\x1b[K"
		}
		fmt.Fprintf(f, "\r\x1b[K%s: %d of %d%s", part, done, of, end)
	}
}
