package main

import "slices"

// mutants are all faults, by what they break.
var mutants = slices.Concat(deciding, classes, safety, bodies, waits, limiter, quotas, gates, keys, answers, attempts)
