package aws_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// Whatever stands in files and variables: Load does not panic, what it accepts
// is a valid strategy of one of three modes, an error names the place, and
// neither line ends nor a comment more change the answer.
func FuzzLoad(f *testing.F) {
	f.Add("[default]\nretry_mode = adaptive\nmax_attempts = 6\n", "[default]\nmax_attempts = 7\n", "", "", "")
	f.Add("[profile dev] # c\n  s3 =\n    max_attempts = 9\n  retry_mode: 'legacy' ; c\n", "[dev]\n", "dev", "", "5")
	f.Add("[profile \"my dev\"]\r\nmax_attempts = 1_0\r\n", "", "my dev", "standard", "")
	f.Add("\ufeff[default]\n", "[x\n= y\n", "", "STANDARD", "-1")
	f.Add("[default]\nretry_mode = \"\n", "[]\n[a]b] c\n", "", "", "99999999999999999999")
	f.Fuzz(func(t *testing.T, config, credentials, profile, mode, attempts string) {
		dir := t.TempDir()
		load := func(config string) (*retrip.Strategy, error) {
			m := machine{
				env:         map[string]string{"AWS_PROFILE": profile, "AWS_RETRY_MODE": mode, "AWS_MAX_ATTEMPTS": attempts},
				config:      &config,
				credentials: &credentials,
			}
			return m.on(t, dir, aws.Config{}).Load()
		}
		s, err := load(config)
		if err != nil {
			require.Nil(t, s)
			named := false
			for _, place := range []string{"AWS_PROFILE", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS", configPath(dir) + ":", credentialsPath(dir) + ":"} {
				named = named || strings.Contains(err.Error(), place)
			}
			require.True(t, named, err.Error())
			require.Less(t, len(err.Error()), 2000)
		} else {
			require.GreaterOrEqual(t, s.MaxAttempts, 1)
			require.LessOrEqual(t, modeOf(t, s), retrip.ModeAdaptive)
			require.NoError(t, (&retrip.Transport{Strategy: s}).Validate())
		}

		same := func(other string) {
			t.Helper()
			s2, err2 := load(other)
			if err != nil {
				require.EqualError(t, err2, err.Error())
				return
			}
			require.NoError(t, err2)
			require.Equal(t, s.String(), s2.String())
		}
		if !strings.Contains(config, "\r") {
			same(strings.ReplaceAll(config, "\n", "\r\n"))
		}
		same(config + "\n# comment")
	})
}
