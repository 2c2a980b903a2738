package services_test

import (
	"encoding/base64"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/services"
)

const noHint = -1

// Fields of the draft and of its kind, and how long they ask to wait.
var rateLimitFields = []struct {
	field string
	want  time.Duration
}{
	// the draft's examples
	{`"default";r=50;t=30`, noHint},
	{`"default";r=999;pk=:dHJpYWwxMjEzMjM=:`, noHint},
	{`"default";r=300000000;t=60;pk=:QXBwLTk5OQ==:`, noHint},
	{`"problemPolicy";r=0;t=10`, 10 * sec},
	{`"dayLimit";r=100;t=36000`, noHint},
	{`"dynamic";r=0;t=20`, 20 * sec},
	// lists
	{`"a";r=0;t=5,"b";r=0;t=50`, 50 * sec},
	{`"a";r=0;t=50 , "b";r=0;t=5`, 50 * sec},
	{"\"a\";r=0;t=5\t,\t\"b\";r=7;t=99", 5 * sec},
	{`"a";r=0;t=0`, 0},
	{"\"a\";r=0;t=3 \t", 3 * sec},
	{"\t\"a\";r=0;t=3", noHint},
	{`"a";r=0`, noHint},
	{`"a";r=0,"b";r=0;t=3`, 3 * sec},
	{strings.Repeat(`"a";r=0;t=4, `, 5000) + `"a";r=1`, 4 * sec},
	{`"a";r=0;t=999999999999999`, math.MaxInt64},
	{`"a";r=0;t=9223372035`, 9223372035 * sec},
	{``, noHint},
	{`  `, noHint},
	// parameters of all types are comments, but must be well-formed
	{`"a\"\\b"; r=0; t=3;x;*y=?0;z=?1;tok=*a/b:c!#;s="";d=-1.5;when=@1659578233;n=-15;b=::;dis=%"f%c3%bc"`, 3 * sec},
	{`"a";r=1;r=0;t=9;t=3`, 3 * sec},
	{`"a";pk=:sdfjLJUOUH==:;r=0;t=3`, 3 * sec}, // pad bits that are not zero
	{`"a";pk=:YQ:;r=0;t=3`, 3 * sec},           // no padding
	{`"a";pk=:YQ=:;r=0;t=3`, noHint},
	{`"a";pk=:Y:;r=0;t=3`, noHint},
	{`"a";pk=:Y-==:;r=0;t=3`, noHint},
	{`"a";pk=:YQ==;r=0;t=3`, noHint},
	{`"a";r=0;t=3;d=1234567890123.5`, noHint},
	{`"a";r=0;t=3;d=1.2345`, noHint},
	{`"a";r=0;t=3;d=1.`, noHint},
	{`"a";r=0;t=3;d=.5`, noHint},
	{`"a";r=0;t=3;d=--1`, noHint},
	{`"a";r=0;t=3;b=?2`, noHint},
	{`"a";r=0;t=3;b=?`, noHint},
	{`"a";r=0;t=3;w=@1.5`, noHint},
	{`"a";r=0;t=3;w=@`, noHint},
	{`"a";r=0;t=3;s="tab	"`, noHint},
	{`"a";r=0;t=3;s="\n"`, noHint},
	{`"a";r=0;t=3;s="open`, noHint},
	{`"a";r=0;t=3;dis=%"f%C3%BC"`, noHint},
	{`"a";r=0;t=3;dis=%"%c3"`, noHint},
	{`"a";r=0;t=3;dis=%"%c"`, noHint},
	{`"a";r=0;t=3;dis=%"%zz"`, noHint},
	{`"a";r=0;t=3;dis=%"open`, noHint},
	{`"a";r=0;t=3;dis=%x`, noHint},
	{`"a";r=0;t=3;R=1`, noHint},
	{`"a";r=0;t=3;1=1`, noHint},
	{`"a";r=0;t=3;x=`, noHint},
	{`"a";r=0;t=3;`, noHint},
	{`"a" ;r=0;t=3`, noHint},
	{`"a";r =0;t=3`, noHint},
	// malformed anywhere is ignored everywhere
	{`"a";r=0;t=3,`, noHint},
	{`,"a";r=0;t=3`, noHint},
	{`"a";r=0;t=3,,"b";r=0;t=3`, noHint},
	{`"a";r=0;t=3 "b";r=0;t=3`, noHint},
	{`"a";r=0;t=3, b`, noHint},
	{`"a";r=0;t=3, ("b");r=0;t=3`, noHint},
	{`a;r=0;t=3`, noHint},
	{`1;r=0;t=3`, noHint},
	{`"a";t=3`, noHint},
	{`"a";r;t=3`, noHint},
	{`"a";r=0.0;t=3`, noHint},
	{`"a";r="0";t=3`, noHint},
	{`"a";r=-1;t=3`, noHint},
	{`"a";r=0;t=-3`, noHint},
	{`"a";r=0;t=3.5`, noHint},
	{`"a";r=0;t`, noHint},
	{`"a";r=0;t=1000000000000000`, noHint},
	{`"ä";r=0;t=3`, noHint},
	{`limit=10, remaining=0, reset=50`, noHint},
	{`0`, noHint},
}

func TestRateLimitFieldIsReadStrictly(t *testing.T) {
	for _, tt := range rateLimitFields {
		h, ok := readRateLimit(tt.field)
		require.Equal(t, tt.want != noHint, ok, "%.80s", tt.field)
		if ok {
			require.Equal(t, retrip.Hint{Wait: tt.want, From: "RateLimit"}, h, "%.80s", tt.field)
		}
	}
}

func TestRateLimitOfACachedAnswer(t *testing.T) {
	for age, cached := range map[string]bool{
		"": false, "0": false, "00": false, "-1": false, "soon": false,
		"1": true, "007": true, "60": true, "99999999999999999999": true,
	} {
		header := http.Header{"Ratelimit": {`"a";r=0;t=3`}, "Age": {age}}
		_, ok := services.RateLimit{}.ReadHint(retrip.Attempt{Response: &http.Response{StatusCode: 429, Header: header}})
		require.Equal(t, !cached, ok, age)
	}
}

func TestRateLimitOfAHugeFieldCostsNoMemory(t *testing.T) {
	field := strings.Repeat(`"a";r=0;t=3,`, 10000) + `"b";r=1`
	header := http.Header{"Ratelimit": {field}}
	allocated := testing.AllocsPerRun(3, func() {
		_, ok := services.RateLimit{}.ReadHint(retrip.Attempt{Response: &http.Response{StatusCode: 429, Header: header}})
		require.True(t, ok)
	})
	require.Less(t, allocated, 20.0)
}

func readRateLimit(field string) (retrip.Hint, bool) {
	header := http.Header{"Ratelimit": {field}}
	return services.RateLimit{}.ReadHint(retrip.Attempt{Response: &http.Response{StatusCode: 429, Header: header}})
}

// The grammar of RFC 9651 as one regular expression for each of its types,
// display strings aside.
const (
	sfNumber = `-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})`
	sfString = `"(?:[ !#-\[\]-~]|\\["\\])*"`
	sfBare   = `(?:` + sfNumber + `|` + sfString + `|[A-Za-z*][!#$%&'*+.^_` + "`" + `|~0-9A-Za-z:/-]*|:[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15})`
	sfParam  = `; *([a-z*][a-z0-9_.*-]*)(?:=(` + sfBare + `))?`
	sfItem   = `(` + sfBare + `)((?:` + sfParam + `)*)`
)

var (
	sfList   = regexp.MustCompile(`^ *(?:` + sfItem + `(?:[ \t]*,[ \t]*` + sfItem + `)*[ \t]*)?$`)
	sfFirst  = regexp.MustCompile(`^` + sfItem + `(?:[ \t]*,[ \t]*)?`)
	sfParams = regexp.MustCompile(sfParam)
	sfCount  = regexp.MustCompile(`^(?:[0-9]{1,15}|-0{1,15})$`)
)

// byGrammar reads a RateLimit field the slow way.
func byGrammar(field string) (longest time.Duration, ok bool) {
	field = strings.Trim(field, " ")
	if !sfList.MatchString(field) {
		return 0, false
	}
	for field != "" {
		item := sfFirst.FindStringSubmatch(field)
		field = strings.TrimLeft(field[len(item[0]):], " \t")
		params := map[string]string{}
		for _, p := range sfParams.FindAllStringSubmatch(item[2], -1) {
			if bytes, isBytes := strings.CutPrefix(p[2], ":"); isBytes {
				bytes = strings.TrimSuffix(bytes, ":")
				_, err := base64.StdEncoding.DecodeString(bytes)
				if _, raw := base64.RawStdEncoding.DecodeString(bytes); err != nil && raw != nil {
					return 0, false
				}
			}
			if params[p[1]] = p[2]; p[2] == "" {
				params[p[1]] = "?1"
			}
		}
		t, timed := params["t"]
		if !strings.HasPrefix(item[1], `"`) || !sfCount.MatchString(params["r"]) || timed && !sfCount.MatchString(t) {
			return 0, false
		}
		r, _ := strconv.ParseInt(params["r"], 10, 64)
		seconds, _ := strconv.ParseInt(t, 10, 64)
		if r == 0 && timed {
			wait := time.Duration(math.MaxInt64)
			if seconds < math.MaxInt64/int64(time.Second) {
				wait = time.Duration(seconds) * time.Second
			}
			longest, ok = max(longest, wait), true
		}
	}
	return longest, ok
}

func FuzzRateLimit(f *testing.F) {
	for _, seed := range []string{
		`"default";r=0;t=30`, `"a";r=0;t=5,"b";r=0;t=50`, `"a\"";r=0;t=3;x;pk=:YQ==:`, `"a";r=0;t=-0`,
		`*a;r=1.5;t=?1`, `"a";r=0;t=@5`, "\"a\"; r=0;t=1 ,\t\"b\";r=0", `"a";r=0;t=1,`, `"a;r=0;t=1"`, `"a";b=";r=0;t=1";r=0;t=2`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) {
		if len(field) > 4<<10 {
			return // regular expressions are slow
		}
		h, ok := readRateLimit(field)
		if strings.Contains(field, `%"`) {
			return // perhaps a display string
		}
		if want, wanted := byGrammar(field); ok != wanted || ok && h.Wait != want {
			t.Fatalf("%q: read %v, %v, want %v, %v", field, h.Wait, ok, want, wanted)
		}
	})
}
