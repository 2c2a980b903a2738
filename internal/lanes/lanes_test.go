package lanes_test

import (
	"sync"
	"testing"

	"github.com/retrip-go/retrip/internal/lanes"
)

// Nothing that is counted is lost or seen twice, however many count and take.
func TestCounterLosesNothing(t *testing.T) {
	var (
		c     lanes.Counter
		wg    sync.WaitGroup
		taken = make(chan int64, 100)
	)
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Add(1)
			}
		})
	}
	wg.Go(func() {
		for range cap(taken) {
			taken <- c.Take()
		}
		close(taken)
	})
	wg.Wait()
	sum := c.Load()
	for n := range taken {
		sum += n
	}
	if sum != 8000 {
		t.Errorf("%d of 8000", sum)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c lanes.Counter
	if n := testing.AllocsPerRun(100, func() { c.Add(1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
