// Package bench measures retrip beside the other retrying clients for Go, by
// benchmarks only; see its README. It is a module of its own so that the core's
// users never see what it depends on.
package bench
