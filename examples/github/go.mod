module github.com/retrip-go/retrip/examples/github

go 1.25.0

require (
	github.com/google/go-github/v89 v89.0.0
	github.com/retrip-go/retrip v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/google/go-querystring v1.2.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/retrip-go/retrip => ../../
