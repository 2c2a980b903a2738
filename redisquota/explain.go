package redisquota

import (
	"fmt"
	"strings"
)

// remedies are what to do about errors of Redis and Valkey, by how they begin. The
// first word of an error is part of the protocol, if it is not ERR.
var remedies = []struct{ prefix, remedy string }{
	{"NOPERM", "the ACL user may not run the script, or not with this Options.Prefix: see the line in the module's README"},
	{"The user executing the script can't run", "the ACL user lacks a command that the script runs: see the line in the module's README"},
	{"ACL failure in script", "the ACL user lacks a command that the script runs: see the line in the module's README"},
	{"WRONGPASS", "the user name or password is wrong: check the client's options"},
	{"NOAUTH", "the server wants a password: set it in the client's options"},
	{"READONLY", "this is a replica: give the client the address of the primary, or of Sentinel or the cluster"},
	{"CLUSTERDOWN", "the cluster has lost a part: quotas decide by their own gates until it is back"},
	{"MOVED", "this is a node of a cluster: use a cluster client"},
	{"OOM", "the server has no memory left and evicts nothing: set maxmemory-policy to allkeys-lru or give it more"},
	{"MISCONF", "the server can't write its snapshot and refuses writes: see its log"},
	{"LOADING", "the server is starting and still loads its data"},
	{"unknown command", "the server is older than Redis 6.2, or the command is disabled or renamed: use Redis 6.2 or later, or Valkey"},
	{"Error running script", "the script failed: use Redis 6.2 or later, or Valkey"},
}

// explain adds to an error of Redis or Valkey what to do about it. Other errors, such
// as those of the network, stay as they are.
func explain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "-"), "ERR ") // clients differ
	for _, known := range remedies {
		if strings.HasPrefix(text, known.prefix) {
			return fmt.Errorf("redisquota: %w (%s)", err, known.remedy)
		}
	}
	return fmt.Errorf("redisquota: %w", err)
}
