package aws_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/aws"
)

// An outcome is a row's mode and attempts, null if the default applies, or the
// class of its error.
type outcome struct {
	Mode        *string      `json:"mode"`
	MaxAttempts *json.Number `json:"max_attempts"`
	Error       string       `json:"error"`
}

type vectors struct {
	Cases []struct {
		ID          string            `json:"id"`
		Env         map[string]string `json:"env"`
		Config      *string           `json:"config_file"`
		Credentials *string           `json:"credentials_file"`
		Expect      *outcome          `json:"expect"`
		GoV2        *outcome          `json:"go_v2"`
		Botocore    *outcome          `json:"botocore"`
	} `json:"cases"`
	CodeOverEnv []struct {
		Env    map[string]string          `json:"env"`
		Code   map[string]json.RawMessage `json:"code"`
		Expect outcome                    `json:"expect"`
	} `json:"code_over_env"`
	Defaults struct {
		GoV2 struct {
			Mode string `json:"mode"`
		} `json:"go_v2"`
	} `json:"defaults_when_unset"`
}

// choices are the rows whose two SDKs differ, with the one that is followed.
// The package documentation's table has the rules.
var choices = map[string]struct{ sdk, reason string }{
	"env_legacy":             {"botocore", "the mode exists here"},
	"env_max_negative":       {"botocore", "go-v2 would retry without end"},
	"file_bad_mode_env_ok":   {"botocore", "an overridden value is not looked at"},
	"file_max_zero":          {"botocore", "0 attempts can't be meant"},
	"env_max_empty":          {"go_v2", "an empty variable is not set"},
	"env_max_spaces":         {"go_v2", "taken literally, as both SDKs take the mode"},
	"env_max_huge":           {"go_v2", "out of range"},
	"profile_empty_env":      {"go_v2", "an empty variable is not set"},
	"both_profile_envs":      {"go_v2", "AWS_PROFILE is the name all SDKs know"},
	"profile_quoted":         {"botocore", "the AWS CLI writes quotes around blanks"},
	"profile_unquoted_space": {"go_v2", "it can mean nothing else"},
	"bom":                    {"botocore", "go-v2 loses the first section"},
	"dup_key":                {"botocore", "two values, no telling which is meant"},
	"dup_section_override":   {"botocore", "two values, no telling which is meant"},
	"value_quoted_file":      {"go_v2", "it can mean nothing else"},
	"garbage_line":           {"botocore", "it may be a misspelt setting"},
	"unclosed_section":       {"botocore", "its settings would go to another profile, or nowhere"},
	"max_negative_file":      {"botocore", "go-v2 would retry without end"},
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	differ := 0
	for _, row := range v.Cases {
		t.Run(row.ID, func(t *testing.T) {
			want := row.Expect
			if want == nil {
				choice, ok := choices[row.ID]
				require.True(t, ok, "the SDKs differ: choose one")
				want = map[string]*outcome{"go_v2": row.GoV2, "botocore": row.Botocore}[choice.sdk]
				differ++
			}
			m := machine{env: row.Env, config: row.Config, credentials: row.Credentials}
			checkOutcome(t, *want, m.on(t, t.TempDir(), aws.Config{}))
		})
	}
	require.Len(t, choices, differ, "a choice for no row")
}

func TestVectorsCodeOverEnv(t *testing.T) {
	v := readVectors(t)
	for i, row := range v.CodeOverEnv {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			var c aws.Config
			read := func(name string, into any) bool {
				raw, ok := row.Code[name]
				delete(row.Code, name)
				if ok {
					require.NoError(t, json.Unmarshal(raw, into))
				}
				return ok
			}
			read("mode", &c.Mode)
			// In botocore's code the one counts retries; here nothing does.
			if read("max_attempts (=retries)", &c.MaxAttempts) {
				c.MaxAttempts++
			}
			read("total_max_attempts", &c.MaxAttempts)
			require.Empty(t, row.Code, "not read")
			checkOutcome(t, row.Expect, machine{env: row.Env}.on(t, t.TempDir(), c))
		})
	}
}

// What is not set falls to standard mode: aws-sdk-go-v2's default.
func TestVectorsDefault(t *testing.T) {
	v := readVectors(t)
	mode := retrip.ModeStandard.String()
	require.Equal(t, v.Defaults.GoV2.Mode, mode)
	checkOutcome(t, outcome{Mode: &mode}, machine{}.on(t, t.TempDir(), aws.Config{}))
}

func checkOutcome(t *testing.T, want outcome, c aws.Config) {
	t.Helper()
	s, err := c.Load()
	if want.Error != "" {
		require.Error(t, err)
		require.Nil(t, s)
		require.Equal(t, want.Error, kindOf(err), err.Error())
		return
	}
	require.NoError(t, err)
	mode := "standard"
	if want.Mode != nil {
		mode = *want.Mode
	}
	require.Equal(t, mode, modeOf(t, s).String())
	attempts := fmt.Sprint(modeOf(t, s).Strategy().MaxAttempts)
	if want.MaxAttempts != nil {
		attempts = want.MaxAttempts.String()
	}
	require.Equal(t, attempts, fmt.Sprint(s.MaxAttempts))
	require.NoError(t, (&retrip.Transport{Strategy: s}).Validate())
}

// kindOf names an error as the vectors do. For botocore a setting given twice
// is a file it can't read.
func kindOf(err error) string {
	for _, class := range [][2]string{
		{"given twice", "unreadable_file"},
		{"retry_mode goes on", "invalid_mode"},
		{"max_attempts goes on", "invalid_max_attempts"},
		{"is not a retry mode", "invalid_mode"},
		{"is not a number of attempts", "invalid_max_attempts"},
		{"there is no profile", "profile_not_found"},
	} {
		if strings.Contains(err.Error(), class[0]) {
			return class[1]
		}
	}
	return "unreadable_file"
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	sdkVectors(t, "config.json", &v)
	return v
}
