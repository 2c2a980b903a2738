package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/elastic/go-elasticsearch/v9"
	"github.com/elastic/go-elasticsearch/v9/esapi"
)

// A call is one that a program makes with go-elasticsearch.
type call func(context.Context, *elasticsearch.Client) (answer, error)

// An answer is what it returned, whatever its status.
type answer struct {
	status int
	body   string
}

const name = "drinks" // of the index

func document(drink string) string { return fmt.Sprintf(`{"name":%q}`, drink) }

func index(id, drink string) call {
	return func(ctx context.Context, client *elasticsearch.Client) (answer, error) {
		return read(client.Index(name, strings.NewReader(document(drink)),
			client.Index.WithDocumentID(id), client.Index.WithContext(ctx)))
	}
}

// indexStream sends a body whose length is not known and which can't be
// reopened, as when it is encoded while it is sent.
func indexStream(id, drink string) call {
	return func(ctx context.Context, client *elasticsearch.Client) (answer, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(json.NewEncoder(w).Encode(map[string]string{"name": drink})) }()
		return read(client.Index(name, r, client.Index.WithDocumentID(id), client.Index.WithContext(ctx)))
	}
}

// bulk indexes drinks under their names, so that once more makes no difference.
func bulk(drinks ...string) call {
	return func(ctx context.Context, client *elasticsearch.Client) (answer, error) {
		return read(client.Bulk(strings.NewReader(actions(drinks)), client.Bulk.WithContext(ctx)))
	}
}

func actions(drinks []string) string {
	var b strings.Builder
	for _, drink := range drinks {
		fmt.Fprintf(&b, `{"index":{"_index":%q,"_id":%q}}`+"\n%s\n", name, drink, document(drink))
	}
	return b.String()
}

func search(ctx context.Context, client *elasticsearch.Client) (answer, error) {
	return read(client.Search(client.Search.WithIndex(name), client.Search.WithContext(ctx),
		client.Search.WithBody(strings.NewReader(query))))
}

const query = `{"query":{"match_all":{}}}`

func get(id string) call {
	return func(ctx context.Context, client *elasticsearch.Client) (answer, error) {
		return read(client.Get(name, id, client.Get.WithContext(ctx)))
	}
}

func read(res *esapi.Response, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(body)}, err
}
