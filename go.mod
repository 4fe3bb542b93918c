module github.com/rousehq/rouse

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0 // the command line
	github.com/chromedp/cdproto v0.159.0 // tests: the protocol of the browser
	github.com/chromedp/chromedp v0.23.0 // tests: drives Chromium
	github.com/cockroachdb/pebble/v2 v2.1.7 // the default store
	github.com/go-jose/go-jose/v4 v4.1.8 // signed tokens of callers
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // JSON of the API: strict, with duplicates refused
	github.com/goccy/go-yaml v1.19.2 // files of settings, pools, timers and calendars, with places in errors
	github.com/jackc/pgx/v5 v5.12.0 // the store PostgreSQL
	github.com/modelcontextprotocol/go-sdk v1.8.0 // rouse mcp
	github.com/nats-io/nats.go v1.55.0 // targets and queues in NATS
	github.com/prometheus/client_golang v1.25.0 // metrics
	github.com/rabbitmq/amqp091-go v1.16.0 // targets, pools and queues in RabbitMQ
	github.com/redis/go-redis/v9 v9.23.0 // the store, targets and queues in Redis
	github.com/rogpeppe/go-internal v1.16.0 // tests: scripts of the command line
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1 // tests: verifies our signatures with the code of others
	github.com/yuin/goldmark v1.8.7 // rouse docs: pages from Markdown
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.45.0 // traces over OTLP
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc v1.45.0 // traces over OTLP by gRPC
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.45.0 // traces over OTLP by HTTP
	go.opentelemetry.io/otel/sdk v1.45.0 // traces: batches and limits
	go.opentelemetry.io/proto/otlp v1.11.0 // tests: reads the traces that are sent
	go.uber.org/goleak v1.3.0 // tests: goroutines that remain
	golang.org/x/net v0.60.0 // forms of headers and host names; limits of connections; encodings of XML
	golang.org/x/oauth2 v0.37.0 // the client credentials grant of webhook targets
	golang.org/x/sync v0.24.0 // groups of goroutines
	golang.org/x/sys v0.49.0 // calls of systems: files, signals, terminals
	golang.org/x/term v0.47.0 // whether a person is at the terminal
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // details of gRPC errors
	google.golang.org/grpc v1.85.0 // the API
	google.golang.org/protobuf v1.36.12 // the API
	modernc.org/libc v1.77.1 // of SQLite: memory of its checksums
	modernc.org/sqlite v1.60.1 // the store SQLite, without C
	pgregory.net/rapid v1.3.0 // tests: random sequences that shrink
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261026165753-2ffab32bce7e // indirect
)

require (
	github.com/DataDog/zstd v1.5.7 // indirect
	github.com/Microsoft/go-winio v0.6.2 // indirect
	github.com/RaduBerinde/axisds v0.1.0 // indirect
	github.com/RaduBerinde/btreemap v0.0.0-20250419174037-3d62b7205d54 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cockroachdb/crlib v0.0.0-20241112164430-1264a2edc35b // indirect
	github.com/cockroachdb/errors v1.11.3 // indirect
	github.com/cockroachdb/logtags v0.0.0-20230118201751-21c54148d20b // indirect
	github.com/cockroachdb/redact v1.1.5 // indirect
	github.com/cockroachdb/swiss v0.0.0-20260820225851-333444432258 // indirect
	github.com/cockroachdb/tokenbucket v0.0.0-20230807174530-cc333fc44b06 // indirect
	github.com/containerd/errdefs v1.0.0
	github.com/containerd/errdefs/pkg v0.3.0 // indirect
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/docker/go-units v0.5.0
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/getsentry/sentry-go v0.27.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/godbus/dbus/v5 v5.2.4
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/snappy v0.0.5-0.20231225225746-43d5d4cd4e0e // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/minio/minlz v1.0.1-0.20250507153514-87eb42fe8882 // indirect
	github.com/moby/docker-image-spec v1.3.1 // indirect
	github.com/moby/moby/api v1.56.1
	github.com/moby/moby/client v0.6.2
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.60.0 // indirect
	go.opentelemetry.io/otel v1.45.0
	go.opentelemetry.io/otel/metric v1.45.0 // indirect
	go.opentelemetry.io/otel/trace v1.45.0
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/exp v0.0.0-20230626212559-97b1e661b5df // indirect
	golang.org/x/text v0.42.0
	golang.org/x/tools v0.50.0 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)
