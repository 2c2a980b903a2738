module github.com/retrip-go/retrip/examples/breaker

go 1.25.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/retrip-go/retrip v0.0.0
	github.com/sony/gobreaker/v2 v2.4.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/retrip-go/retrip => ../../
