package redisquota_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/retrip-go/retrip/redisquota"
	"github.com/stretchr/testify/require"
)

// eventually waits for something that servers agree about.
func eventually(t *testing.T, condition func() bool, says string) {
	t.Helper()
	require.Eventually(t, condition, 30*time.Second, 50*time.Millisecond, says)
}

func info(t *testing.T, client rueidis.Client, words ...string) string {
	t.Helper()
	text, err := do(t, client, words...).ToString()
	require.NoError(t, err)
	return text
}

// When the primary dies, Sentinel makes the replica the new one, and the fleet finds it.
func TestSentinelFailover(t *testing.T) {
	withServersForLong(t, func(t *testing.T, program string) {
		primary := serve(t, program)
		replica := serve(t, program, "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.port))
		sentinel := prepare(t, program)
		config := sentinel.write("sentinel.conf", fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
sentinel monitor retries 127.0.0.1 %d 1
sentinel down-after-milliseconds retries 300
sentinel failover-timeout retries 2000
`, sentinel.port, sentinel.dir, primary.port))
		sentinel.run(exec.Command(program, config, "--sentinel"))
		watch := sentinel.client()
		eventually(t, func() bool { return strings.Contains(info(t, watch, "INFO", "sentinel"), "slaves=1") }, "no replica")
		eventually(t, func() bool {
			return strings.Contains(info(t, replica.client(), "INFO", "replication"), "master_link_status:up")
		}, "the replica has no link")

		option := sentinel.options()
		option.Sentinel.MasterSet = "retries"
		fleet := newFleet(t, dial(t, option), redisquota.Options{Interval: 50 * time.Millisecond})
		requireVerdict(t, fleet)
		primary.kill()
		requireQuick(t, fleet)
		requireVerdict(t, fleet)
		require.Contains(t, info(t, replica.client(), "INFO", "replication"), "role:master")
	})
}

// When a node of a cluster dies, its replica takes its place. Dependencies on other
// nodes don't notice.
func TestClusterFailover(t *testing.T) {
	withServersForLong(t, func(t *testing.T, program string) {
		nodes := cluster(t, program)
		option := nodes[0].options()
		for _, node := range nodes {
			option.InitAddress = append(option.InitAddress, node.addr())
			for _, line := range aclLines(t) {
				do(t, node.client(), line...)
				option.Username, option.Password = "retrip", "PASSWORD"
			}
		}
		fleet := newFleet(t, dial(t, option), redisquota.Options{Interval: 50 * time.Millisecond, Prefix: "production"})
		requireVerdict(t, fleet)

		key := fleet.Quota("verdict").Stats().RedisKey
		var owner *server
		for _, node := range nodes[:3] {
			if owned(t, node, key) {
				owner = node
			}
		}
		require.NotNil(t, owner)
		owner.kill()
		requireQuick(t, fleet)
		requireVerdict(t, fleet)
	})
}

// owned reports whether a node has a key.
func owned(t *testing.T, node *server, key string) bool {
	client := node.client()
	slot, err := do(t, client, "CLUSTER", "KEYSLOT", key).AsInt64()
	require.NoError(t, err)
	n, err := do(t, client, "CLUSTER", "COUNTKEYSINSLOT", strconv.FormatInt(slot, 10)).AsInt64()
	require.NoError(t, err)
	return n > 0
}

// cluster starts three nodes with all slots, and a replica of each.
func cluster(t *testing.T, program string) (nodes []*server) {
	t.Helper()
	var clients []rueidis.Client
	for range 6 {
		s := serve(t, program, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
		nodes, clients = append(nodes, s), append(clients, s.client())
	}
	for i, client := range clients {
		do(t, client, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < 3 {
			do(t, client, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*5461), strconv.Itoa((i+1)*5461-1+i/2))
		}
		if i > 0 {
			do(t, client, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(nodes[0].port))
		}
	}
	for i, client := range clients {
		eventually(t, func() bool {
			return strings.Contains(info(t, client, "CLUSTER", "INFO"), "cluster_known_nodes:6")
		}, "nodes don't know each other")
		if i >= 3 {
			id := info(t, clients[i-3], "CLUSTER", "MYID")
			eventually(t, func() bool { return strings.Contains(info(t, client, "CLUSTER", "NODES"), id) }, "unknown primary")
			do(t, client, "CLUSTER", "REPLICATE", id)
		}
	}
	for _, client := range clients {
		eventually(t, func() bool {
			nodes := info(t, client, "CLUSTER", "NODES")
			return strings.Contains(info(t, client, "CLUSTER", "INFO"), "cluster_state:ok") && strings.Count(nodes, "slave") == 3
		}, "the cluster is not ready")
	}
	for _, client := range clients[3:] {
		eventually(t, func() bool {
			return strings.Contains(info(t, client, "INFO", "replication"), "master_link_status:up")
		}, "a replica has no link")
	}
	return nodes
}
