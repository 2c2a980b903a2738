package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/retrip-go/retrip/lab/internal/report"
	"github.com/retrip-go/retrip/lab/internal/scenario"
)

// A drawing is one picture by itself: which policies it shows unless -policy says
// otherwise, the scenario, and how it is made.
type drawing struct {
	name, scenario string
	policies       []string
	draw           func(context.Context, *scenario.Scenario) (*report.Picture, error)
}

var drawings = []drawing{
	{"outage", "brownout-late", []string{"unlimited", "gated"}, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		r, err := scenario.Run(ctx, s, nil)
		if err != nil {
			return nil, err
		}
		p := report.TimeLine(r)
		for i, about := range map[string]string{"unlimited": "retries without a quota", "gated": "the same retries behind a gate"} {
			for _, panel := range p.Panels {
				if panel.Title == i {
					panel.Title = about
				}
			}
		}
		return p, nil
	}},
	{"failures", "refused", []string{"none", "unlimited", "standard", "grpc", "gated"}, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		curves, err := scenario.OverFailures(ctx, s, nil)
		return report.OverFailures(curves), err
	}},
	{"clients", "refused", []string{"unlimited", "standard", "aws-2026", "finagle", "envoy", "grpc", "gated"}, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		curves, err := scenario.OverClients(ctx, s, nil)
		return report.OverClients(curves), err
	}},
	{"loop", "refused", []string{"none", "unlimited", "standard", "gated"}, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		loops, err := scenario.Metastable(ctx, s, nil)
		return report.Loops(loops), err
	}},
	{"recovery", "refused", []string{"none", "unlimited", "standard", "gated"}, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		maps, err := scenario.RecoveryMap(ctx, s, nil)
		return report.Maps(maps), err
	}},
	{"pareto", "refused", scenario.Lineup, func(ctx context.Context, s *scenario.Scenario) (*report.Picture, error) {
		trades, err := scenario.Trades(ctx, s, nil)
		return report.Pareto(trades), err
	}},
}

// picture draws single pictures.
func (c *command) picture(ctx context.Context) error {
	if len(c.files) == 0 {
		return fmt.Errorf("picture needs a name: use one or more of %s", strings.Join(drawingNames(), ", "))
	}
	var files []file
	for _, name := range c.files {
		i := slices.IndexFunc(drawings, func(d drawing) bool { return d.name == name })
		if i < 0 {
			return fmt.Errorf("%s is no picture: use one of %s", name, strings.Join(drawingNames(), ", "))
		}
		svg, err := c.drawing(ctx, drawings[i])
		if err != nil {
			return err
		}
		files = append(files, file{name + ".svg", svg})
	}
	return writeAll(c.out, files)
}

func (c *command) drawing(ctx context.Context, d drawing) ([]byte, error) {
	own := *c
	if own.policies == nil {
		for _, name := range d.policies {
			if err := own.parsePolicy(name); err != nil {
				return nil, err
			}
		}
	}
	s, err := own.loadScenario(d.scenario)
	if err != nil {
		return nil, err
	}
	p, err := d.draw(ctx, s)
	if err != nil {
		return nil, err
	}
	return append(p.SVG(), '\n'), nil
}

func drawingNames() (names []string) {
	for _, d := range drawings {
		names = append(names, d.name)
	}
	return names
}
