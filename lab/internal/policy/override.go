package policy

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/lab/internal/sim"
	"github.com/retrip-go/retrip/lab/internal/strictyaml"
)

// Overrides are settings of a strategy, by their names. nil leaves the mode's.
type Overrides struct {
	MaxAttempts     *int           `yaml:"MaxAttempts"`
	MaxRetryAfter   *time.Duration `yaml:"MaxRetryAfter"`
	Backoff         *Backoff       `yaml:"Backoff"`
	ThrottleBackoff *Backoff       `yaml:"ThrottleBackoff"`
	Quota           *Quota         `yaml:"Quota"`
	Cost            *int           `yaml:"Cost"`
	ThrottleCost    *int           `yaml:"ThrottleCost"`
	TimeoutCost     *int           `yaml:"TimeoutCost"`
}

// Check reports settings that make no strategy.
func (o Overrides) Check() error {
	s := retrip.Standard()
	o.apply(s)
	return checked(s)
}

// checked is what a Transport says of a strategy.
func checked(s *retrip.Strategy) error {
	return (&retrip.Transport{Base: noBase{}, Strategy: s}).Validate()
}

type noBase struct{}

func (noBase) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrNotSupported }

func (o Overrides) apply(s *retrip.Strategy) {
	setTo(&s.MaxAttempts, o.MaxAttempts)
	setTo(&s.MaxRetryAfter, o.MaxRetryAfter)
	setTo(&s.Cost, o.Cost)
	setTo(&s.ThrottleCost, o.ThrottleCost)
	setTo(&s.TimeoutCost, o.TimeoutCost)
	if o.Backoff != nil {
		s.Backoff = o.Backoff.Backoff
	}
	if o.ThrottleBackoff != nil {
		s.ThrottleBackoff = o.ThrottleBackoff.Backoff
	}
}

func setTo[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Strategies returns what makes the strategies of one run's clients: of the policy's
// mode, with the scenario's overrides, then its own. Without retries, the attempts
// stay one.
func (p Policy) Strategies(scenario Overrides) func() *retrip.Strategy {
	var quota func() retrip.Quota
	if p.own.Quota != nil {
		quota = p.own.Quota.make()
	}
	return func() *retrip.Strategy {
		s := p.base.make()
		attempts := s.MaxAttempts
		scenario.apply(s)
		if attempts == 1 {
			s.MaxAttempts = 1
		}
		p.own.apply(s)
		if quota != nil {
			s.Quota = quota()
		}
		return s
	}
}

// Override sets a setting that a flag names.
func (p *Policy) Override(attempts int) { p.own.MaxAttempts = &attempts }

// Backoff is a backoff in a file, for example {FullJitter: {Base: 2s, Cap: 20s}}, or
// none: then ThrottleBackoff leaves it to Backoff.
type Backoff struct{ retrip.Backoff }

type baseAndCap struct {
	Base time.Duration `yaml:"Base"`
	Cap  time.Duration `yaml:"Cap"`
}

// ReadYAML reads the backoff's type and fields.
func (b *Backoff) ReadYAML(c strictyaml.Context, node *yaml.Node) error {
	var f struct {
		Constant *struct {
			Wait   time.Duration `yaml:"Wait"`
			Period time.Duration `yaml:"Period"`
		} `yaml:"Constant"`
		Exponential        *baseAndCap `yaml:"Exponential"`
		FullJitter         *baseAndCap `yaml:"FullJitter"`
		EqualJitter        *baseAndCap `yaml:"EqualJitter"`
		DecorrelatedJitter *baseAndCap `yaml:"DecorrelatedJitter"`
		CapAfterJitter     *baseAndCap `yaml:"CapAfterJitter"`
	}
	if node.Kind == yaml.ScalarNode && node.Value == "none" {
		return nil
	}
	if err := c.Read(node, &f); err != nil {
		return err
	}
	if len(node.Content) != 2 {
		return c.Errorf(node, "has %d types: write one, such as FullJitter", len(node.Content)/2)
	}
	switch {
	case f.Constant != nil:
		b.Backoff = retrip.Constant{Wait: f.Constant.Wait, Period: f.Constant.Period}
	case f.Exponential != nil:
		b.Backoff = retrip.Exponential(*f.Exponential)
	case f.FullJitter != nil:
		b.Backoff = retrip.FullJitter(*f.FullJitter)
	case f.EqualJitter != nil:
		b.Backoff = retrip.EqualJitter(*f.EqualJitter)
	case f.DecorrelatedJitter != nil:
		b.Backoff = retrip.DecorrelatedJitter(*f.DecorrelatedJitter)
	case f.CapAfterJitter != nil:
		b.Backoff = retrip.CapAfterJitter(*f.CapAfterJitter)
	}
	return nil
}

// Quota is a quota in a file: the name of a policy that has it, or a type with its
// settings, for example {Bucket: 500} or {Throttle: {max: 10, ratio: 0.1}}.
//
// make is called once for each run: what it returns makes the quotas of the clients.
type Quota struct {
	make func() func() retrip.Quota
}

// ReadYAML reads the name, or the type and its settings.
func (q *Quota) ReadYAML(c strictyaml.Context, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		named, err := Named(node.Value)
		if err != nil || node.Value == "none" {
			return c.Errorf(node, "is %q, which is no quota: use one of %s", node.Value, strings.Join(quotaNames(), ", "))
		}
		q.each(func() retrip.Quota { return named.base.make().Quota })
		return nil
	}
	var f struct {
		Bucket   *int `yaml:"Bucket"`
		Throttle *struct {
			Max   float64 `yaml:"max"`
			Ratio float64 `yaml:"ratio"`
		} `yaml:"Throttle"`
		Deposits *struct {
			Most   float64 `yaml:"most"`
			Credit float64 `yaml:"credit"`
		} `yaml:"Deposits"`
		Windowed *struct {
			Free  float64 `yaml:"free"`
			Share float64 `yaml:"share"`
		} `yaml:"Windowed"`
		Fleet *struct {
			Tick time.Duration `yaml:"tick"`
			Lost time.Duration `yaml:"lost"`
		} `yaml:"Fleet"`
	}
	if err := c.Read(node, &f); err != nil {
		return err
	}
	switch {
	case len(node.Content) != 2:
		return c.Errorf(node, "has %d types: write one, such as Bucket", len(node.Content)/2)
	case f.Bucket != nil:
		q.each(func() retrip.Quota { return retrip.NewBucket(*f.Bucket) })
	case f.Throttle != nil:
		q.each(func() retrip.Quota {
			return &throttle{tokens: f.Throttle.Max, max: f.Throttle.Max, ratio: f.Throttle.Ratio}
		})
	case f.Deposits != nil:
		q.each(func() retrip.Quota {
			return &deposits{tokens: f.Deposits.Most, most: f.Deposits.Most, credit: f.Deposits.Credit}
		})
	case f.Windowed != nil:
		q.each(func() retrip.Quota { return &windowed{free: f.Windowed.Free, share: f.Windowed.Share} })
	case f.Fleet != nil:
		if f.Fleet.Tick <= 0 {
			return c.Errorf(node, "has no tick: write how often members report, such as {Fleet: {tick: 500ms}}")
		}
		q.make = func() func() retrip.Quota {
			var lost time.Time
			if f.Fleet.Lost > 0 {
				lost = sim.Epoch.Add(f.Fleet.Lost)
			}
			shared := newFleet(f.Fleet.Tick, lost)
			return func() retrip.Quota { return &member{fleet: shared} }
		}
	}
	return nil
}

func (q *Quota) each(quota func() retrip.Quota) {
	q.make = func() func() retrip.Quota { return quota }
}

// quotaNames are the policies that differ in their quota.
func quotaNames() (all []string) {
	for _, b := range bases {
		if b.name != "none" && !strings.Contains(b.name, ".") && b.name != "legacy" {
			all = append(all, b.name)
		}
	}
	return slices.Clip(all)
}
