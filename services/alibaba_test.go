package services_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/services"
)

func TestAlibabaKMS(t *testing.T) {
	refused := answer{method: post, status: 429, body: `{"HttpStatus":429,"Code":"Rejected.Throttling","Message":"QPS Limit Exceeded"}`}
	capped := func() *retrip.Strategy {
		s := services.AlibabaKMS()
		s.Backoff = retrip.Exponential{Base: 200 * ms, Cap: 500 * ms}
		return s
	}
	for _, tt := range []struct {
		make  func() *retrip.Strategy
		waits []time.Duration
	}{
		{services.AlibabaKMS, []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 0}},
		{services.AlibabaKMSJava, []time.Duration{400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 0}},
		{capped, []time.Duration{200 * ms, 400 * ms, 500 * ms, 500 * ms, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var waits []time.Duration
			for _, e := range send(t, tt.make(), refused, refused, refused, refused, refused).events {
				require.Equal(t, throttled, e.Class)
				waits = append(waits, e.Wait)
			}
			require.Equal(t, tt.waits, waits)
		})
	}
	for a, want := range map[*answer]retrip.Class{
		{status: 400, body: `{"Code":"SDK.Rejected.Throttling.Again"}`}: throttled,
		{status: 400, body: `{"Code":"Throttling.User"}`}:               throttled,
		{status: 429}: throttled, // without a code, too
		{status: 501}: transient,
		{status: 400}: permanent,
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, want, send(t, services.AlibabaKMS(), *a).events[0].Class, "%+v", a)
		})
	}
}

func TestFixedInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := make([]answer, 20)
		for i := range busy {
			busy[i].status = 503
		}
		start := time.Now()
		o := send(t, services.FixedInterval(time.Second, 10*time.Second), busy...)
		require.Len(t, o.Sent(), 11)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
	for _, bad := range [][2]time.Duration{{0, time.Second}, {time.Second, 0}, {-1, time.Second}, {time.Second, -1}, {2, 1}} {
		require.Error(t, (&retrip.Transport{Strategy: services.FixedInterval(bad[0], bad[1])}).Validate(), bad)
	}
}
