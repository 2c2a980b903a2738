module github.com/retrip-go/retrip/examples/resty

go 1.25.0

require (
	github.com/go-resty/resty/v2 v2.17.2
	github.com/retrip-go/retrip v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.43.0 // indirect
)

replace github.com/retrip-go/retrip => ../../
