package retrip

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"

	"github.com/hashicorp/go-cleanhttp"
)

// Validate reports every setting of the Transport that makes no sense, each
// with its name and what to do. It asks PerKey for the strategy of the empty
// key. A Transport that is not valid sends nothing: RoundTrip returns the same
// error, for a PerKey when it first has to do with a key.
func (t *Transport) Validate() error {
	err := t.check()
	if t.PerKey != nil && t.Strategy == nil {
		err = errors.Join(err, guarded("retrip: Transport.PerKey", func() error { return t.newEntry("").policy.err }))
	}
	return err
}

// guarded makes an error of what code of the user's raises, which is called
// name in it.
func guarded(name string, do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%s panicked: %v", name, value)
		}
	}()
	return do()
}

func (t *Transport) check() error {
	var errs []error
	report := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("retrip: Transport."+format, args...))
	}
	if t.Base != nil && isNil(t.Base) {
		report("Base is a nil %T: leave the field nil, or set the transport to wrap", t.Base)
	}
	if t.Base == http.RoundTripper(t) {
		report("Base is the Transport itself: leave it nil, or set the transport to wrap")
	}
	if t.Strategy != nil {
		if t.PerKey != nil {
			report("Strategy and PerKey are both set: leave one nil")
		}
		if err := newPolicy(t.Strategy, "Strategy").err; err != nil {
			report("%w", err)
		}
	}
	if t.MaxKeys < 0 {
		report("MaxKeys is %d: use 0 for %d, or more", t.MaxKeys, defaultMaxKeys)
	}
	if t.AttemptTimeout < 0 {
		report("AttemptTimeout is %v: use 0 for none, or more", t.AttemptTimeout)
	}
	if t.ReplayBuffer < 0 {
		report("ReplayBuffer is %d: use 0 for %d, or more", t.ReplayBuffer, defaultReplayBuffer)
	}
	return errors.Join(errs...)
}

// Unwrap returns the transport that sends the attempts: Base, or the one that
// stands in for a nil Base. To call it is to use the Transport.
func (t *Transport) Unwrap() http.RoundTripper {
	t.setUp()
	return t.base
}

// CloseIdleConnections closes the base's idle connections, if it knows how to.
// http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.Unwrap().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// errNotRead stays if code of the user's ends the goroutine that reads the
// settings (runtime.Goexit): they are read only once.
var errNotRead = errors.New("retrip: the Transport's settings were not read to their end: a Validate method of a part ended its goroutine")

// setUp reads the settings, once.
func (t *Transport) setUp() { t.once.Do(t.readSettings) }

func (t *Transport) readSettings() {
	t.base = t.Base
	if t.base == nil {
		t.base = cleanhttp.DefaultPooledTransport()
	}
	t.invalid = errNotRead
	t.invalid = t.check()
	if t.Strategy != nil {
		t.single.policy = newPolicy(t.Strategy, "retrip: Transport.Strategy")
	}
	t.clocked = t.Prepare != nil || t.Observe != nil || t.AttemptTimeout > 0
	t.plain = t.invalid == nil && !t.clocked
	t.keys.seed = maphash.MakeSeed()
	t.keys.max = t.MaxKeys
	if t.keys.max == 0 {
		t.keys.max = defaultMaxKeys
	}
}

// newEntry makes the state of a key.
func (t *Transport) newEntry(key string) *entry {
	switch {
	case t.Strategy != nil:
		return &entry{key: key, policy: t.single.policy, shared: true}
	case t.PerKey != nil:
		return &entry{key: key, policy: newPolicy(t.PerKey(key), fmt.Sprintf("retrip: Transport.PerKey(%q)", key))}
	default:
		return &entry{key: key, policy: newPolicy(Standard(), "retrip.Standard")}
	}
}
