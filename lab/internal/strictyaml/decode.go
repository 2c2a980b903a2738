// Package strictyaml reads YAML into structs and says of each mistake in which
// file and line it is, in which field, and what to write instead.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// An Error is a mistake in a file.
type Error struct {
	File  string
	Line  int
	Field string // with dots, empty for the document
	Err   error
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Field == "" {
		return fmt.Sprintf("%s: %v", at, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", at, e.Field, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A Reader is a type that reads itself, from a node and with a Context for what
// lies below.
type Reader interface {
	ReadYAML(c Context, node *yaml.Node) error
}

// A Context knows where a node is.
type Context struct {
	file, field string
}

// A File is a file that was read. It knows the lines of its fields.
type File struct {
	name string
	root *yaml.Node
}

// Read reads a file's text into the struct that out points to. Fields are named by
// the tag `yaml`. Each field may be there once, and none that out does not have.
func Read(name string, text []byte, out any) (*File, error) {
	var doc yaml.Node
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, &Error{File: name, Err: errors.New("is empty: write the fields that it needs")}
	}
	if err := yaml.Load(text, &doc); err != nil {
		return nil, &Error{File: name, Err: fmt.Errorf("%w: correct the YAML", err)}
	}
	if len(doc.Content) == 0 {
		return nil, &Error{File: name, Err: errors.New("has nothing but comments: write the fields that it needs")}
	}
	f := &File{name: name, root: doc.Content[0]}
	return f, Context{file: name}.Read(f.root, out)
}

// Errorf returns an error at a field, which is given with dots.
func (f *File) Errorf(field, format string, args ...any) error {
	node := f.root
	for part := range strings.SplitSeq(field, ".") {
		next := child(node, part)
		if next == nil {
			break
		}
		node = next
	}
	return &Error{File: f.name, Line: node.Line, Field: field, Err: fmt.Errorf(format, args...)}
}

func child(node *yaml.Node, name string) *yaml.Node {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i < len(node.Content) {
			return node.Content[i]
		}
	}
	return nil
}

// Errorf returns an error at a node.
func (c Context) Errorf(node *yaml.Node, format string, args ...any) error {
	return &Error{File: c.file, Line: node.Line, Field: c.field, Err: fmt.Errorf(format, args...)}
}

func (c Context) in(name string) Context {
	if c.field != "" {
		name = c.field + "." + name
	}
	c.field = name
	return c
}

// Read reads a node into what out points to.
func (c Context) Read(node *yaml.Node, out any) error {
	return c.read(node, reflect.ValueOf(out).Elem())
}

var durationType = reflect.TypeFor[time.Duration]()

func (c Context) read(node *yaml.Node, out reflect.Value) error {
	if node.Kind == yaml.AliasNode {
		return c.Errorf(node, "is an alias: write the value out")
	}
	if r, ok := out.Addr().Interface().(Reader); ok {
		return r.ReadYAML(c, node)
	}
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		return c.read(node, out.Elem())
	case reflect.Struct:
		return c.readStruct(node, out)
	case reflect.Slice:
		return c.readSlice(node, out)
	}
	if node.Kind != yaml.ScalarNode {
		return c.Errorf(node, "is not a single value: write %s", wanted(out.Type()))
	}
	if !set(out, node.Value) {
		return c.Errorf(node, "is %q: write %s", node.Value, wanted(out.Type()))
	}
	return nil
}

func (c Context) readStruct(node *yaml.Node, out reflect.Value) error {
	if node.Kind != yaml.MappingNode {
		return c.Errorf(node, "is not a mapping: write fields with values, such as %s: …", names(out.Type())[0])
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := c.in(key.Value)
		index := slices.Index(names(out.Type()), key.Value)
		if index < 0 {
			return at.Errorf(key, "no such field: use one of %s", strings.Join(names(out.Type()), ", "))
		}
		if seen[key.Value] {
			return at.Errorf(key, "is there twice: remove one")
		}
		seen[key.Value] = true
		if err := at.read(value, out.Field(index)); err != nil {
			return err
		}
	}
	return nil
}

func (c Context) readSlice(node *yaml.Node, out reflect.Value) error {
	if node.Kind != yaml.SequenceNode {
		return c.Errorf(node, "is not a list: write [ … ], or lines with dashes")
	}
	out.Set(reflect.MakeSlice(out.Type(), len(node.Content), len(node.Content)))
	for i, item := range node.Content {
		if err := c.in(strconv.Itoa(i)).read(item, out.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func set(out reflect.Value, text string) bool {
	var err error
	switch {
	case out.Type() == durationType:
		var d time.Duration
		if d, err = time.ParseDuration(text); err == nil {
			out.SetInt(int64(d))
		}
	case out.Kind() == reflect.String:
		out.SetString(text)
	case out.Kind() == reflect.Bool:
		out.SetBool(text == "true")
		return text == "true" || text == "false"
	case out.Kind() == reflect.Int:
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil {
			out.SetInt(n)
		}
	case out.Kind() == reflect.Uint64:
		var n uint64
		if n, err = strconv.ParseUint(text, 10, 64); err == nil {
			out.SetUint(n)
		}
	case out.Kind() == reflect.Float64:
		var x float64
		if x, err = strconv.ParseFloat(text, 64); err == nil {
			out.SetFloat(x)
		}
		return err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
	default:
		return false
	}
	return err == nil
}

func wanted(t reflect.Type) string {
	switch {
	case t == durationType:
		return "a duration with its unit, such as 500ms or 1m"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	}
	return "a text"
}

// names are those of the fields, which come before fields without one.
func names(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			all = append(all, name)
		}
	}
	return all
}
