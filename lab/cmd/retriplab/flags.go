package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/scenario"
	"github.com/retrip-go/retrip/lab/internal/strictyaml"
)

// errNoCapacity tells that a flag does not fit a scenario.
var errNoCapacity = errors.New("its server has no capacity")

var errHelp = errors.New("help was asked for")

// A command is what the user asked for.
type command struct {
	name           string
	args           []string // the flags as given, to make the report again
	files          []string
	stdout, stderr io.Writer

	clients, attempts    int
	rate, load, capacity float64
	outage               time.Duration
	seeds                []uint64
	policies             []policy.Policy
	require              []requirement
	out, format          string
	set                  map[string]bool // the flags that were given
}

func parse(name string, args []string, stdout, stderr io.Writer) (*command, error) {
	c := &command{name: name, args: args, stdout: stdout, stderr: stderr, set: map[string]bool{}}
	fs := flag.NewFlagSet("retriplab", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&c.clients, "clients", 0, "number of `clients`, each with a quota of its own")
	fs.Float64Var(&c.rate, "rate", 0, "`requests` per second of each client")
	fs.Float64Var(&c.load, "load", 0, "in the place of -rate: the `part` of the server's capacity that is used")
	fs.DurationVar(&c.outage, "outage", 0, "how long the outage `lasts`")
	fs.Float64Var(&c.capacity, "capacity", 0, "the server's `answers` per second, for scenarios in which it has a capacity")
	fs.IntVar(&c.attempts, "attempts", 0, "the `attempts` that each request may take")
	fs.Func("seeds", "`numbers` that set all chance, with commas", c.parseSeeds)
	fs.Func("policy", "a policy by `name`, or as in a scenario file: '{mode: standard, MaxAttempts: 5}'; may be given again", c.parsePolicy)
	fs.Func("require", "`bars` for every policy, with commas: 'amplification<=1.1,recovery<=5s'", func(text string) (err error) {
		c.require, err = parseRequirements(text)
		return err
	})
	fs.StringVar(&c.out, "out", "", "`folder` for report.html, pictures, CSV and JSON (default retriplab-report; \"none\" writes nothing)")
	if name == "replay" {
		fs.StringVar(&c.format, "format", "", "combined, json or otlp")
	}
	for len(args) > 0 { // flags may stand after files, too
		if err := fs.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				fmt.Fprint(stdout, usage)
				fs.SetOutput(stdout)
				fs.PrintDefaults()
				return nil, errHelp
			}
			return nil, fmt.Errorf("%w; retriplab -help lists the flags", err)
		}
		if args = fs.Args(); len(args) > 0 {
			c.files, args = append(c.files, args[0]), args[1:]
		}
	}
	fs.Visit(func(f *flag.Flag) { c.set[f.Name] = true })
	return c, c.check()
}

func (c *command) check() error {
	for _, rule := range []struct {
		bad           bool
		flag, problem string
	}{
		{c.set["clients"] && c.clients < 1, "clients", "is %v: use 1 or more"},
		{c.set["rate"] && !(c.rate > 0), "rate", "is %v: use more than 0"},
		{c.set["load"] && !(c.load > 0), "load", "is %v: use more than 0, such as 0.8"},
		{c.set["outage"] && c.outage <= 0, "outage", "is %v: use more than 0, such as 60s"},
		{c.set["capacity"] && !(c.capacity > 0), "capacity", "is %v: use more than 0"},
		{c.set["attempts"] && c.attempts < 1, "attempts", "is %v: use 1 for no retries, or more"},
		{c.set["rate"] && c.set["load"], "load", "is %v, and -rate is set, too: use one"},
	} {
		if rule.bad {
			value := map[string]any{"clients": c.clients, "rate": c.rate, "load": c.load, "outage": c.outage, "capacity": c.capacity, "attempts": c.attempts}[rule.flag]
			return fmt.Errorf("-%s "+rule.problem, rule.flag, value)
		}
	}
	if c.name != "run" && c.name != "compare" && c.name != "replay" && c.name != "show" && c.name != "picture" && len(c.files) > 0 {
		return fmt.Errorf("%s: this command takes no file: use retriplab run %s", c.files[0], c.files[0])
	}
	if c.out == "" {
		c.out = "retriplab-report"
	}
	return nil
}

func (c *command) parseSeeds(text string) error {
	c.seeds = nil
	for part := range strings.SplitSeq(text, ",") {
		seed, err := strconv.ParseUint(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return errors.New("use whole numbers with commas, such as 1,2,3")
		}
		c.seeds = append(c.seeds, seed)
	}
	return nil
}

func (c *command) parsePolicy(text string) error {
	var one struct {
		Policy policy.Policy `yaml:"policy"`
	}
	if _, err := strictyaml.Read("-policy", []byte("policy: "+text), &one); err != nil {
		return err
	}
	c.policies = append(c.policies, one.Policy)
	return nil
}

// loadScenario reads a scenario and applies the flags.
func (c *command) loadScenario(name string) (*scenario.Scenario, error) {
	s, err := scenario.Load(name)
	if err != nil {
		return nil, err
	}
	if c.set["clients"] {
		s.Clients = c.clients
	}
	if c.set["rate"] {
		s.Rate, s.Load, s.Requests = c.rate, 0, 0
	}
	if c.set["load"] {
		s.Load, s.Rate, s.Requests = c.load, 0, 0
	}
	if c.set["capacity"] {
		if s.Server.Capacity == 0 {
			return nil, fmt.Errorf("-capacity: %s: %w: leave the flag out, or set server.capacity in the file", name, errNoCapacity)
		}
		s.Server.Capacity = c.capacity
	}
	if c.set["outage"] {
		for i := range s.Faults {
			if s.Faults[i].For == s.Outage {
				s.Faults[i].For = c.outage
			}
		}
		s.Outage = c.outage
	}
	if c.set["attempts"] {
		s.Strategy.MaxAttempts = &c.attempts
	}
	if c.seeds != nil {
		s.Seeds = c.seeds
	}
	if c.policies != nil {
		s.Policies = c.policies
	}
	return s, s.Check()
}
