//go:build !race

package retrip

const raceEnabled = false
