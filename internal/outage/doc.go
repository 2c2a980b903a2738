// Package outage holds tests only. They send the requests of many clients through
// real Transports, in virtual time, to servers that are down, overloaded or
// unreliable, and measure what each retry quota makes of it: how much load retries
// add, and how many requests they save.
//
//	go test ./internal/outage                 # the demands on the gate, with a fifth of the clients
//	go test ./internal/outage -full           # the same with all of them
//	go test ./internal/outage -full -update   # also makes the tables of docs/quotas.md
package outage
