# What .ci/run and .ci/full have in common.

say() { printf '\n== %s\n' "$*"; }
run() { say "$*"; "$@"; }

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# Modules whose dependencies take minutes to compile, or need other programs.
heavy='realservers examples/alibaba examples/aws examples/azure examples/elasticsearch examples/gcs examples/kubernetes examples/migrate examples/minio examples/openai'

modules() { git ls-files go.mod '*/go.mod' | xargs -n1 dirname; }
light_modules() { modules | grep -vxF "$(printf '%s\n' $heavy)"; }

# check_module runs what every module must pass.
check_module() (
  cd "$1"
  say "module $1"
  run go mod tidy -diff
  run go vet ./...
  run go run "$staticcheck" ./...
  run go test -race -shuffle=on ./...
)

# check_picture fails if the README's picture is not what the quickstart prints.
check_picture() {
  say "docs/quickstart.svg is up to date"
  go run ./internal/picture | diff docs/quickstart.svg - ||
    { printf 'make it anew: go run ./internal/picture > docs/quickstart.svg\n'; exit 1; }
}

# check_example runs the program of a module and looks for a line in what it
# prints: check_example DIRECTORY PATTERN
check_example() (
  cd "$1"
  say "$1: go run ."
  output=$(mktemp)
  trap 'rm -f "$output"' EXIT
  go run . | tee "$output"
  shift
  for pattern; do
    grep -qE -- "$pattern" "$output" || { printf 'no line matches %s\n' "$pattern"; exit 1; }
  done
)

# check_platforms builds and vets a module, its tests included, for systems and
# word sizes that this machine doesn't have. Vetting also checks types.
check_platforms() (
  export CGO_ENABLED=0
  for platform; do
    export GOOS=${platform%/*} GOARCH=${platform#*/}
    run env GOOS="$GOOS" GOARCH="$GOARCH" go build ./...
    run env GOOS="$GOOS" GOARCH="$GOARCH" go vet ./...
  done
)

# test_32bit runs the tests with an int of 32 bits, where the machine can.
test_32bit() (
  export CGO_ENABLED=0 GOARCH=386
  if ! output=$(go test -run '^$' ./internal/errorcode 2>&1); then
    case $output in
    *'exec format error'*) say "no tests with 32 bits: this machine can't run them"; return ;;
    esac
  fi
  run env GOARCH=386 go test ./...
)

# say_coverage prints how much of the packages that users import their tests
# cover, and the functions that are less than 80 % covered.
say_coverage() {
  say "coverage of the packages that users import, and functions below 80 %"
  grep -v -e /internal/ -e /examples/ "$1" >"$1.users"
  go tool cover -func "$1.users" | awk '$NF + 0 < 80 || $1 == "total:"'
  rm "$1.users"
}
