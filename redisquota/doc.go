// Package redisquota lets the processes of a fleet share a retry quota through
// Redis or Valkey, so that they stop retrying together when a dependency is down.
//
//	client := redisquota.DialRueidis(rueidis.ClientOption{InitAddress: []string{"redis:6379"}})
//	fleet, err := redisquota.New(client, redisquota.Options{Prefix: "production"})
//	if err != nil {
//		return err
//	}
//	defer fleet.Close()
//	transport := &retrip.Transport{PerKey: func(key string) *retrip.Strategy {
//		s := retrip.Gated()
//		s.Quota = fleet.Quota(key)
//		return s
//	}}
//
// # What is shared
//
// Processes share evidence, not tokens. Each has a [retrip.Gate] of its own, and
// counts answers and failures. Redis keeps one doubt for each dependency, by the
// same rule: a failure raises it, an answer lowers it twice as much, and from its
// limit on no process retries. A process retries if its own gate allows it and the
// fleet's doubt does not forbid it. So the fleet can only take retries away.
//
// # When Redis is gone
//
// Redis is never asked on the way of a success. A process reports in the background,
// every half second at most. Only a failure that finds an old verdict asks at once,
// and its retry waits for the answer up to 20 ms, which are part of its backoff.
// Without an answer the process's own gate decides alone, and for a second no retry
// waits again. No request fails because of Redis.
package redisquota
