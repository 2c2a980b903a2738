// Package realservers tests retrip against servers and a proxy that people
// run: nginx, HAProxy and toxiproxy, each behind the build tag of its name.
//
//	go test -tags nginx,haproxy,toxiproxy .
//
// serve.sh starts nginx and HAProxy from their Debian packages, which it
// installs if they are missing. This is a module of its own so that the core's
// users never see what these tests depend on.
package realservers
