module github.com/retrip-go/retrip/examples/oauth2

go 1.26.0

require (
	github.com/retrip-go/retrip v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/oauth2 v0.37.0
)

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/retrip-go/retrip => ../../
