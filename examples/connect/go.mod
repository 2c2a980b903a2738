module github.com/retrip-go/retrip/examples/connect

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/retrip-go/retrip v0.0.0
	github.com/stretchr/testify v1.12.1
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/retrip-go/retrip => ../../
