//go:build unix && !race

package retrip_test

import (
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
)

// Without doubt an answer writes nothing: it works in memory that can only be
// read. So many requests at once do not take the word from each other. (The race
// detector knows no such memory.)
func TestGateWithoutDoubtIsOnlyRead(t *testing.T) {
	page, err := syscall.Mmap(-1, 0, syscall.Getpagesize(), syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(page)) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	g := (*retrip.Gate)(unsafe.Pointer(&page[0]))
	require.NotPanics(t, func() {
		g.Answered(retrip.Success, 0)
		g.Return(5)
		require.True(t, g.Full())
		require.True(t, g.Take(t.Context(), failure(0, 1, 3)))
	})
	require.Panics(t, func() { g.Failed(failure(0, 1, 3)) }, "or the memory is not what it should be")
}
