package main

import (
	"github.com/retrip-go/retrip/otelretrip"
	"github.com/retrip-go/retrip/redisquota"
)

// The modules fit together, though neither imports the other.
var _ otelretrip.Fleet = (*redisquota.Fleet)(nil)
