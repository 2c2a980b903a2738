module github.com/retrip-go/retrip/examples/migrate

go 1.25.0

require (
	github.com/PuerkitoBio/rehttp v1.4.0
	github.com/cenkalti/backoff/v4 v4.3.0
	github.com/cenkalti/backoff/v7 v7.0.3
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/gojek/heimdall/v7 v7.0.3
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/retrip-go/retrip v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/ybbus/httpretry v1.0.2
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/gojek/valkyrie v0.0.0-20180215180059-6aee720afcdf // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/stretchr/objx v0.5.3 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/retrip-go/retrip => ../../
