package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/retrip-go/retrip/lab/internal/report"
)

// finish prints the tables, writes the files, and checks what is required.
func (c *command) finish(page *report.Page) error {
	c.complete(page)
	for _, r := range page.Reports {
		fmt.Fprintln(c.stdout, report.Table(r))
	}
	for _, note := range page.Notes {
		fmt.Fprintln(c.stdout, note)
	}
	fmt.Fprintln(c.stdout, page.Sentence)
	if c.out != "none" {
		files, err := pageFiles(page)
		if err != nil {
			return err
		}
		if err := writeAll(c.out, files); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "\n%s has the report, with pictures, CSV and JSON beside it.\n", filepath.Join(c.out, "report.html"))
	}
	if mb, ok := peakMemory(); ok {
		fmt.Fprintf(c.stderr, "highest memory: %d MB\n", mb)
	}
	return c.checkRequirements([]*report.Page{page})
}

func (c *command) complete(page *report.Page) {
	page.Command = "retriplab"
	if c.name != "classic" {
		page.Command += " " + c.name
	}
	for _, arg := range c.args {
		if strings.ContainsAny(arg, " {}<>*'\"$&|;()") {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		page.Command += " " + arg
	}
	for _, r := range page.Reports {
		for _, x := range r.Results {
			page.Ours = page.Ours || x.Policy == "gated" && len(r.Results) > 1
		}
		if text := r.Scenario.Source(); text != "" {
			page.Files = append(page.Files, report.File{Name: r.Scenario.Name, Text: text})
		}
	}
	page.Losses = report.Losses(page.Reports)
}

// A file is what is to be written.
type file struct {
	name string
	data []byte
}

func pageFiles(page *report.Page) ([]file, error) {
	html, err := page.HTML()
	if err != nil {
		return nil, err
	}
	doc, err := page.JSON()
	if err != nil {
		return nil, err
	}
	files := []file{{"report.html", html}, {"results.json", doc}, {"results.csv", page.CSV()}, {"series.csv", page.SeriesCSV()}}
	for _, p := range page.Pictures {
		png, err := p.PNG()
		if err != nil {
			return nil, err
		}
		files = append(files, file{p.Name + ".svg", p.SVG()}, file{p.Name + ".png", png})
	}
	return files, nil
}

// writeAll writes each file beside its place and then moves it there, so that no
// file is ever half written.
func writeAll(folder string, files []file) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("-out: %w: name a folder that can be written", err)
	}
	for _, f := range files {
		if err := writeFile(filepath.Join(folder, f.name), f.data); err != nil {
			return fmt.Errorf("-out: %w: name a folder that can be written", err)
		}
	}
	return nil
}

func writeFile(name string, data []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// peakMemory is the most memory that the process had, where the system tells.
func peakMemory() (mb int, ok bool) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.Sys >> 20), true
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kb int
		if n, err := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kb); n == 1 && err == nil {
			return kb >> 10, true
		}
	}
	return 0, false
}
