//go:build !race

package otelretrip

const raceEnabled = false
