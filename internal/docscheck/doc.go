// Package docscheck has no code, only tests: they run or compile the commands and
// the Go snippets of the documentation.
//
// It reads README.md, CONTRIBUTING.md, the other Markdown files in the root, in
// docs and in bench, and the comments of all Go files. It is a module of its own,
// because the snippets need more packages than the core does.
//
//   - A block of Go is type-checked: a file, declarations, statements, or fields of
//     a Transport, a Strategy or Options. Variables such as client or s are declared
//     for it. The check trusts names from packages that it does not import.
//   - Inline code that calls a function or makes a value is type-checked, too.
//   - An exported name exists.
//   - A command names packages, files and flags that exist, and patterns that match
//     a test. The cheap commands are run.
//   - PromQL and alerts go through promtool, where it is installed.
//   - A link leads to a file, and to a heading in it. A file or a test that a page
//     names exists.
package docscheck
