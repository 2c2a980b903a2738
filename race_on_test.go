//go:build race

package retrip

const raceEnabled = true
