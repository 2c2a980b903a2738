package retrip

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The model test makes random requests of a Transport in virtual time, over a
// base that behaves as badly as the RoundTripper contract allows and at times
// worse, and compares what happened with what the documentation promises.
//
//	model_script_test.go   what a random Transport and a random request are
//	model_caller_test.go   what the caller does, and what its bodies are
//	model_prepare_test.go  what Prepare does with a request and its body
//	model_layers_test.go   what stands between two stacked Transports
//	model_faults_test.go   what happens to an attempt
//	model_base_test.go     how the base behaves, and what it answers
//	model_oracle_test.go   what must hold afterwards
//	model_gate_test.go     the same of a gate, beside a plain one
//	model_sockets_test.go  the same requests over real connections
//
// A script is one Transport and the requests that it gets. Its seed decides
// everything but the order in which goroutines run that are ready at the same
// instant, so a rare failure may need more than one run:
//
//	go test -race -run 'TestModel$' -model.seed 42 -count 100
//	go test -race -run 'TestModel$' -model.for 30m -timeout 0 -v
var (
	modelSeed     = flag.Uint64("model.seed", 0, "play only the script of this seed")
	modelRequests = flag.Int("model.requests", 3000, "how many requests TestModel makes")
	modelFor      = flag.Duration("model.for", 0, "how long TestModel goes on, instead of -model.requests")
	modelSockets  = flag.Bool("model.sockets", false, "also play over real connections")
)

func TestModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(file, modelBytes[:modelFileSize], 0o600))
	tally := modelTally{}
	if *modelSeed != 0 {
		playModel(t, *modelSeed, file, tally)
		t.Log(tally)
		return
	}
	first := rand.Uint64() >> 1
	t.Logf("first seed: %d", first)
	begun, told := time.Now(), time.Now()
	for seed := first; ; seed++ {
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Printf("model: %v, next seed %d: %v\n", time.Since(begun).Round(time.Second), seed, tally)
		}
		if *modelFor > 0 && time.Since(begun) > *modelFor || *modelFor == 0 && tally["requests"] >= *modelRequests {
			t.Logf("last seed: %d; %v", seed-1, tally)
			return
		}
		if !playModel(t, seed, file, tally) {
			return
		}
	}
}

// A modelTally counts what happened, to show that a run reached every corner.
type modelTally map[string]int

func (c modelTally) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s %d, ", name, c[name])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// playModel plays the script of a seed in a bubble of its own.
func playModel(t *testing.T, seed uint64, file string, tally modelTally) (ok bool) {
	t.Helper()
	hung := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("seed %d: hangs, or loops without waiting", seed)) })
	defer hung.Stop()
	defer func() { // synctest panics if a goroutine is left in the bubble
		if value := recover(); value != nil {
			stacks := make([]byte, 1<<20)
			t.Errorf("seed %d: %v\n%s", seed, value, stacks[:runtime.Stack(stacks, true)])
			ok = false
		}
	}()
	var s *modelScript
	synctest.Test(t, func(t *testing.T) {
		s = newModelScript(seed, file)
		s.tally = tally
		var wg sync.WaitGroup
		for _, r := range s.requests {
			wg.Go(r.run)
		}
		wg.Wait()
		time.Sleep(time.Hour) // every timer of the script has fired by then
		synctest.Wait()
		s.check()
	})
	if len(s.wrongs) > 0 {
		t.Errorf("seed %d: %v\n%s", seed, s, strings.Join(s.wrongs, "\n"))
	}
	return len(s.wrongs) == 0
}

// All contents are pieces of modelBytes, so that a byte in the wrong place shows.
var modelBytes = func() []byte {
	b := make([]byte, 256<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

const modelFileSize = 24 << 10
