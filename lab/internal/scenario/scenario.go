// Package scenario reads what a server and its clients go through, and runs it.
package scenario

import (
	"embed"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/retrip-go/retrip/lab/internal/policy"
	"github.com/retrip-go/retrip/lab/internal/sim"
	"github.com/retrip-go/retrip/lab/internal/strictyaml"
)

//go:embed builtin/*.yaml
var builtin embed.FS

// A Scenario is a file. The field comments are the file format's manual.
type Scenario struct {
	// Name is short, for lists and files; Title is a line, About a sentence or two.
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	About string `yaml:"about"`
	// Clients is how many there are, each with a quota of its own.
	Clients int `yaml:"clients"`
	// Rate is how many requests each client begins per second, at random times. Load
	// says instead which part of the server's capacity all of them use.
	Rate float64 `yaml:"rate"`
	Load float64 `yaml:"load"`
	// Requests is, in the place of a rate, how many requests each client begins:
	// all at once, or one every so often.
	Requests int           `yaml:"requests"`
	Every    time.Duration `yaml:"every"`
	// Warm is the time before the outage, Outage how long it lasts, and Watch how
	// long the simulation goes on after it. Step is how fine the counts are.
	Warm   time.Duration `yaml:"warm"`
	Outage time.Duration `yaml:"outage"`
	Watch  time.Duration `yaml:"watch"`
	Step   time.Duration `yaml:"step"`
	// Tiers is how many layers of services retry, 1 unless it is said otherwise;
	// Instances is how many there are of each service behind the clients.
	Tiers     int `yaml:"tiers"`
	Instances int `yaml:"instances"`
	// Seeds are those of all chance. Results are means over them.
	Seeds []uint64 `yaml:"seeds"`
	// Strategy overrides settings of every policy; see policy.Overrides. Quotas are
	// the policies' own.
	Strategy policy.Overrides `yaml:"strategy"`
	Policies []policy.Policy  `yaml:"policies"`
	Server   Server           `yaml:"server"`
	Faults   []Fault          `yaml:"faults"`

	file   *strictyaml.File
	source string
	// recording takes the place of server and arrivals in a replay.
	recording *recording
}

// A Server is the healthy server; see sim.Site.
type Server struct {
	Latency  time.Duration `yaml:"latency"`
	Failures float64       `yaml:"failures"`
	Missing  float64       `yaml:"missing"`
	Capacity float64       `yaml:"capacity"`
	Queue    time.Duration `yaml:"queue"`
	Timeout  time.Duration `yaml:"timeout"`
	Refusal  float64       `yaml:"refusal"`
	Backends int           `yaml:"backends"`
	Limit    Limit         `yaml:"limit"`
	Cold     Cold          `yaml:"cold"`
}

// A Limit is the server's limit of attempts per second; see sim.Limit.
type Limit struct {
	Rate   float64       `yaml:"rate"`
	Burst  float64       `yaml:"burst"`
	Window time.Duration `yaml:"window"`
	Hint   bool          `yaml:"retry-after"`
}

// Cold is a cache that is emptied when the outage begins: an answer then costs Cost
// answers, less and less until Answers were given.
type Cold struct {
	Cost    float64 `yaml:"cost"`
	Answers float64 `yaml:"answers"`
}

// A Fault is what goes wrong; see sim.Fault. Its times count from the outage's
// begin. It lasts for the outage unless it is said otherwise, and comes again
// every so often.
type Fault struct {
	From     time.Duration `yaml:"from"`
	For      time.Duration `yaml:"for"`
	Every    time.Duration `yaml:"every"`
	Times    int           `yaml:"times"`
	Failures float64       `yaml:"failures"`
	As       *outcome      `yaml:"as"`
	Takes    time.Duration `yaml:"takes"`
	Capacity *float64      `yaml:"capacity"`
	Backend  *int          `yaml:"backend"`
	Rolling  bool          `yaml:"rolling"`
	Load     *float64      `yaml:"load"`
}

type outcome sim.Outcome

// ReadYAML reads an outcome's name.
func (o *outcome) ReadYAML(c strictyaml.Context, node *yaml.Node) error {
	named, err := sim.OutcomeNamed(node.Value)
	if err != nil {
		return c.Errorf(node, "is %q: %w", node.Value, err)
	}
	*o = outcome(named)
	return nil
}

// Builtin lists the names of the scenarios that come with the laboratory.
func Builtin() (names []string) {
	entries, err := fs.ReadDir(builtin, "builtin")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Text returns the file of a built-in scenario.
func Text(name string) ([]byte, error) {
	text, err := builtin.ReadFile("builtin/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%s: there is no such file or built-in scenario: name a file, or one of %s", name, strings.Join(Builtin(), ", "))
	}
	return text, nil
}

// Load reads a file, or a built-in scenario by its name.
func Load(name string) (*Scenario, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) && !strings.ContainsAny(name, `/\.`) {
		text, err = Text(name)
		name += ".yaml"
	}
	if err != nil {
		if os.IsNotExist(err) {
			return nil, fmt.Errorf("%s: there is no such file: name a file, or one of the scenarios %s", name, strings.Join(Builtin(), ", "))
		}
		return nil, fmt.Errorf("%w: name a file that can be read", err)
	}
	return Parse(name, text)
}

// Parse reads a scenario from text.
func Parse(name string, text []byte) (*Scenario, error) {
	s := new(Scenario)
	file, err := strictyaml.Read(name, text, s)
	if err != nil {
		return nil, err
	}
	s.file, s.source = file, string(text)
	return s, s.Check()
}

// Check sets what the file leaves open, and reports what makes no sense.
func (s *Scenario) Check() error {
	s.setDefaults()
	for _, rule := range []struct {
		bad    bool
		field  string
		remedy string
	}{
		{s.Name == "", "name", "is missing: write a word, such as name: refused"},
		{s.Clients < 1 || s.Clients > 1_000_000, "clients", "is out of range: use 1 to 1000000"},
		{s.Rate < 0, "rate", "is negative: use the requests per second of each client"},
		{s.Load < 0, "load", "is negative: use the part of the capacity that is used, such as 0.8"},
		{s.Requests < 0, "requests", "is negative: use the number of requests of each client"},
		{s.Every < 0, "every", "is negative: use the time between requests"},
		{s.Load > 0 && s.Server.Capacity <= 0, "load", "is set, but server.capacity is not: set both, or rate"},
		{s.Load > 0 && s.Rate > 0, "load", "is set, and rate, too: remove one"},
		{s.Requests > 0 && (s.Rate > 0 || s.Load > 0), "requests", "is set, and rate or load, too: remove one"},
		{s.Requests == 0 && s.Rate == 0 && s.Load == 0, "rate", "is missing: set rate, load or requests"},
		{s.Warm < 0, "warm", "is negative: use 0s or more"},
		{s.Outage <= 0, "outage", "is missing or not above 0: write how long it lasts, such as 60s"},
		{s.Watch < 0, "watch", "is negative: use 0s or more"},
		{s.Step < time.Millisecond, "step", "is too small: use 1ms or more"},
		{s.total()/max(s.Step, 1) > 1_000_000, "step", "makes more than 1000000 steps: make it longer"},
		{s.Tiers < 1 || s.Tiers > 5, "tiers", "is out of range: use 1 to 5"},
		{s.Instances < 1, "instances", "is out of range: use 1 or more"},
		{len(s.Seeds) == 0, "seeds", "is empty: write at least one, such as [1]"},
		{len(s.Policies) == 0, "policies", "is empty: write at least one, such as [standard, gated]"},
	} {
		if rule.bad {
			return s.errorf(rule.field, "%s", rule.remedy)
		}
	}
	if s.Strategy.Quota != nil {
		return s.errorf("strategy.Quota", "is set for all policies: set it in a policy of its own, as in {mode: standard, Quota: grpc}")
	}
	if err := s.Strategy.Check(); err != nil {
		return s.errorf("strategy", "%w", err)
	}
	if err := s.checkServer(); err != nil {
		return err
	}
	if requests := s.perSecond() * s.total().Seconds(); requests > 1e9 {
		return s.errorf("clients", "make %.0g requests in all, more than 1e9: lower clients, rate or the times", requests)
	}
	return s.checkFaults()
}

func (s *Scenario) errorf(field, format string, args ...any) error {
	if s.file == nil {
		return fmt.Errorf("%s %w", field, fmt.Errorf(format, args...))
	}
	return s.file.Errorf(field, format, args...)
}

func (s *Scenario) setDefaults() {
	def(&s.Title, s.Name)
	def(&s.Step, time.Second)
	def(&s.Tiers, 1)
	def(&s.Instances, 10)
	def(&s.Server.Latency, 5*time.Millisecond)
	def(&s.Server.Backends, 1)
	def(&s.Server.Limit.Burst, max(1, s.Server.Limit.Rate))
	if s.Seeds == nil {
		s.Seeds = []uint64{1}
	}
	if s.Policies == nil {
		for _, name := range Lineup {
			s.Policies = append(s.Policies, mustName(name))
		}
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		def(&f.For, s.Outage)
		def(&f.Times, 1)
	}
}

func def[T comparable](field *T, value T) {
	if zero := *new(T); *field == zero {
		*field = value
	}
}

// Lineup is the policies that are compared unless a file names others.
var Lineup = []string{"none", "unlimited", "standard", "aws-2026", "finagle", "envoy", "sre", "brooker", "grpc", "gated"}

func mustName(name string) policy.Policy {
	p, err := policy.Named(name)
	if err != nil {
		panic(err)
	}
	return p
}

func (s *Scenario) checkServer() error {
	srv := s.Server
	for _, rule := range []struct {
		bad           bool
		field, remedy string
	}{
		{srv.Latency < 0, "latency", "is negative: use 0s or more"},
		{!isPart(srv.Failures), "failures", "is no part: use 0 to 1"},
		{!isPart(srv.Missing), "missing", "is no part: use 0 to 1"},
		{srv.Capacity < 0, "capacity", "is negative: use the answers per second, or 0 for any number"},
		{srv.Queue < 0, "queue", "is negative: use how long work may wait, such as 200ms"},
		{srv.Timeout < 0, "timeout", "is negative: use how long clients wait for an answer"},
		{srv.Refusal < 0, "refusal", "is negative: use the part of an answer that a refusal costs"},
		{srv.Backends < 1 || srv.Backends > 1000, "backends", "is out of range: use 1 to 1000"},
		{srv.Limit.Rate < 0, "limit.rate", "is negative: use attempts per second"},
		{srv.Limit.Burst < 0, "limit.burst", "is negative: use the attempts that may come at once"},
		{srv.Limit.Window < 0, "limit.window", "is negative: use a time such as 1s, or leave it out for a token bucket"},
		{srv.Cold.Cost < 0 || srv.Cold.Answers < 0, "cold", "is negative: use what an answer costs, and how many fill the cache"},
		{srv.Cold.Cost > 0 && srv.Capacity == 0, "cold", "is set, but capacity is not: set both"},
	} {
		if rule.bad {
			return s.errorf("server."+rule.field, "%s", rule.remedy)
		}
	}
	return nil
}

func isPart(x float64) bool { return x >= 0 && x <= 1 }

func (s *Scenario) checkFaults() error {
	for i, f := range s.Faults {
		for _, rule := range []struct {
			bad           bool
			field, remedy string
		}{
			{f.From < 0, "from", "is before the outage: use 0s or more"},
			{f.For <= 0, "for", "is not above 0: use how long the fault lasts"},
			{f.Times < 1 || f.Times > 10_000, "times", "is out of range: use 1 to 10000"},
			{f.Times > 1 && f.Every < f.For, "every", "is shorter than for: use the time from one begin to the next"},
			{!isPart(f.Failures), "failures", "is no part: use 0 to 1"},
			{f.Takes < 0, "takes", "is negative: use how long a failure takes"},
			{f.Capacity != nil && (*f.Capacity < 0 || s.Server.Capacity == 0), "capacity", "is negative, or server.capacity is not set: use the part that is left"},
			{f.Capacity != nil && *f.Capacity == 0 && s.Server.Timeout == 0, "capacity", "is 0, but server.timeout is not set: set it, or no attempt ends"},
			{f.Backend != nil && (*f.Backend < 0 || *f.Backend >= s.Server.Backends), "backend", "is none of server.backends: count them from 0"},
			{f.Load != nil && *f.Load < 0, "load", "is negative: use what the rate is multiplied with"},
		} {
			if rule.bad {
				return s.errorf(fmt.Sprintf("faults.%d.%s", i, rule.field), "%s", rule.remedy)
			}
		}
	}
	return nil
}

// Source is the file's text.
func (s *Scenario) Source() string { return s.source }

func (s *Scenario) total() time.Duration { return s.Warm + s.Outage + s.Watch }

// perSecond is how many requests begin per second while nothing is wrong.
func (s *Scenario) perSecond() float64 {
	if s.Load > 0 {
		return s.Load * s.Server.Capacity
	}
	return s.Rate * float64(s.Clients)
}

// faults are the server's faults in the simulation's time.
func (s *Scenario) faults() (all []sim.Fault) {
	for _, f := range s.Faults {
		for n := range f.Times {
			from := s.Warm + f.From + time.Duration(n)*f.Every
			one := sim.Fault{
				From: from, Until: from + f.For, Failures: f.Failures, As: sim.Failed, Takes: f.Takes,
				Capacity: 1, Backend: -1, Load: 1,
			}
			if f.As != nil {
				one.As = sim.Outcome(*f.As)
			}
			if f.Capacity != nil {
				one.Capacity = *f.Capacity
			}
			if f.Backend != nil {
				one.Backend = *f.Backend
			}
			if f.Rolling {
				one.Backend = n % s.Server.Backends
			}
			if f.Load != nil {
				one.Load = *f.Load
			}
			all = append(all, one)
		}
	}
	return all
}

// windows are the times that count as outage: those of faults that come again,
// everything after single requests began, and otherwise the whole outage.
func (s *Scenario) windows() (all [][2]time.Duration) {
	for _, f := range s.Faults {
		if f.Times > 1 && !f.Rolling {
			for n := range f.Times {
				from := s.Warm + f.From + time.Duration(n)*f.Every
				all = append(all, [2]time.Duration{from, from + f.For})
			}
		}
	}
	switch {
	case all == nil && s.Requests > 0: // all that becomes of them
		all = [][2]time.Duration{{s.Warm, s.total()}}
	case all == nil:
		all = [][2]time.Duration{{s.Warm, s.Warm + s.Outage}}
	}
	return slices.Clip(all)
}

// site returns the server.
func (s *Scenario) site(seed uint64) *sim.Site {
	srv := s.Server
	site := &sim.Site{
		Latency: srv.Latency, Failures: srv.Failures, Missing: srv.Missing, Capacity: srv.Capacity,
		Refusal: srv.Refusal, Queue: srv.Queue, Timeout: srv.Timeout, Backends: srv.Backends,
		Limit:    sim.Limit{Rate: srv.Limit.Rate, Burst: srv.Limit.Burst, Window: srv.Limit.Window, Hint: srv.Limit.Hint},
		ColdCost: srv.Cold.Cost, Cold: srv.Cold.Answers, ColdAt: s.Warm, Faults: s.faults(),
	}
	if srv.Capacity > 0 && srv.Queue == 0 {
		site.Queue = math.MaxInt64 / 4
	}
	site.Start(seed)
	return site
}
