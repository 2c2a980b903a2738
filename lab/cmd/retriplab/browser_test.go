package main

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A real browser opens the page at three widths: it reports no error, and has every
// picture and section.
func TestTheReportInABrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium here: install chromium to open the report in a browser")
	}
	page := smallReport(t)
	for _, width := range []string{"390", "820", "1400"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
			"--window-size="+width+",1000", "--enable-logging=stderr", "--v=0", "--dump-dom", "file://"+page)
		var log strings.Builder
		command.Stderr = &log
		dom, err := command.Output()
		require.NoError(t, err, log.String())
		require.NotContains(t, log.String(), "CONSOLE", "the page has errors")
		require.GreaterOrEqual(t, strings.Count(string(dom), "<svg"), 12, "two time lines of three policies, durations, quotas")
		require.Len(t, regexp.MustCompile(`<h2 id="`).FindAllString(string(dom), -1), 9)
		require.Contains(t, string(dom), `id="loses"`)
	}
}
