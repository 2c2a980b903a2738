// Package sim is a discrete-event simulation of clients that send requests
// through retry strategies to a server. It runs in virtual time, on one goroutine,
// and asks the strategies' own parts: their classifiers, backoffs, hints and quotas.
// The same seed gives the same events in the same order.
package sim
