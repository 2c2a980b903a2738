package services_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/retrip-go/retrip"
	"github.com/retrip-go/retrip/internal/testkit"
	"github.com/retrip-go/retrip/services"
)

// show sends a request through a Transport and prints what it makes of the answer.
func show(t *retrip.Transport, call string, status int, body string, headers ...string) {
	pretend(t, status, body, headers...)
	method, url, _ := strings.Cut(call, " ")
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if resp, err := t.RoundTrip(req); err == nil {
		resp.Body.Close()
	}
}

// pretend lets a Transport get one answer, and print what it makes of that: its
// class, and the wait that the service asks for or why there is no retry. It takes
// all waits away, so that the examples end soon.
func pretend(t *retrip.Transport, status int, body string, headers ...string) {
	strategyOf, shown := t.PerKey, false
	t.PerKey = func(host string) *retrip.Strategy {
		s := strategyOf(host)
		s.MaxRetryAfter, s.Backoff, s.ThrottleBackoff = 0, retrip.Constant{}, nil
		return s
	}
	t.Base = testkit.Answer(status, body, append(headers, "Content-Type: application/json")...)
	t.Observe = func(e retrip.Event) {
		switch {
		case shown:
		case e.Reason == retrip.WaitOverCap:
			fmt.Printf("%v: in %v, from %s\n", e.Class, e.Wait, e.WaitFrom)
		case e.Reason != 0:
			fmt.Printf("%v: %v\n", e.Class, e.Reason)
		default:
			fmt.Printf("%v: after the backoff\n", e.Class)
		}
		shown = true
	}
}

// A server of your own has a name that ByHost does not know.
func ExampleGitLab() {
	transport := &retrip.Transport{PerKey: func(host string) *retrip.Strategy {
		if host == "gitlab.example.com" {
			return services.GitLab()
		}
		return services.ByHost(host)
	}}
	show(transport, "GET https://gitlab.example.com/api/v4/projects", 429, "",
		"Date: Tue, 01 Jan 2030 00:00:00 GMT", "RateLimit-Reset: 1893456030")
	// Output: throttled: in 30s, from RateLimit-Reset
}

// An API that is served by a domain of your own.
func ExampleAuth0() {
	transport := &retrip.Transport{PerKey: func(host string) *retrip.Strategy {
		if host == "login.example.com" {
			return services.Auth0()
		}
		return services.ByHost(host)
	}}
	show(transport, "GET https://login.example.com/api/v2/users", 429, "",
		"Date: Tue, 01 Jan 2030 00:00:00 GMT", "X-RateLimit-Reset: 1893456005")
	// Output: throttled: in 5s, from X-RateLimit-Reset
}

// The same header is a number of seconds at Datadog.
func ExampleDatadog() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://api.datadoghq.com/api/v1/query", 429, "", "X-RateLimit-Reset: 5")
	// Output: throttled: in 5s, from X-RateLimit-Reset
}

// Okta's window ends a second after the moment in its header.
func ExampleOkta() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://my-org.okta.com/api/v1/users", 429, "",
		"Date: Tue, 01 Jan 2030 00:00:00 GMT", "X-Rate-Limit-Reset: 1893456005")
	// Output: throttled: in 6s, from X-Rate-Limit-Reset
}

// The body has the most exact wait.
func ExampleDiscord() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://discord.com/api/v10/gateway", 429, `{"retry_after":0.65}`, "Retry-After: 1")
	// Output: throttled: in 650ms, from retry_after
}

// Slack asks for a minute where it does not say how long.
func ExampleSlack() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://slack.com/api/users.list", 429, "")
	// Output: throttled: in 1m0s, from the service's documentation
}

// Shopify's Retry-After has a fraction.
func ExampleShopify() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://my-shop.myshopify.com/admin/api/shop.json", 429, "", "Retry-After: 2.5")
	// Output: throttled: in 2.5s, from Retry-After
}

// Maintenance takes longer than any retry.
func ExampleLinode() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://api.linode.com/v4/regions", 503, "", "X-Maintenance-Mode: true")
	// Output: permanent: not retryable
}

// The API server of a cluster: no retry unless it says when.
func ExampleKubernetes() {
	newTransport := func() *retrip.Transport {
		return &retrip.Transport{PerKey: func(host string) *retrip.Strategy {
			if host == "10.96.0.1" {
				return services.Kubernetes()
			}
			return services.ByHost(host)
		}}
	}
	show(newTransport(), "GET https://10.96.0.1/api/v1/pods", 503, "", "Retry-After: 1")
	show(newTransport(), "GET https://10.96.0.1/api/v1/pods", 503, "")
	// Output:
	// transient: in 1s, from Retry-After
	// permanent: not retryable
}

// Microsoft Graph may ask for three minutes.
func ExampleMicrosoftGraph() {
	fmt.Println("up to", services.MicrosoftGraph().MaxRetryAfter)
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://graph.microsoft.com/v1.0/me", 504, "", "Retry-After: 120")
	// Output:
	// up to 3m0s
	// transient: in 2m0s, from Retry-After
}

// Azure's own header is more exact than Retry-After.
func ExampleAzure() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "GET https://my-account.blob.core.windows.net/pictures/1", 503, "",
		"Retry-After: 1", "X-Ms-Retry-After-Ms: 300")
	// Output: transient: in 300ms, from X-Ms-Retry-After-Ms
}

// A POST that may have created a record is not repeated.
func ExampleCloudflare() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "POST https://api.cloudflare.com/client/v4/zones", 500, "", "X-Should-Retry: true")
	// Output: transient: not idempotent
}

// Without money, no retry restores access. Any other POST is repeated.
func ExampleOpenAI() {
	call := "POST https://api.openai.com/v1/responses"
	show(&retrip.Transport{PerKey: services.ByHost}, call, 429, `{"error":{"code":"insufficient_quota"}}`)
	show(&retrip.Transport{PerKey: services.ByHost}, call, 503, "")
	// Output:
	// permanent: not retryable
	// transient: after the backoff
}

// 529 means that the API is overloaded.
func ExampleAnthropic() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	show(transport, "POST https://api.anthropic.com/v1/messages", 529, "", "Retry-After: 3")
	// Output: throttled: in 3s, from Retry-After
}

// A POST with a key is repeated. IdempotencyKeyTransport gives it one.
func ExampleStripe() {
	transport := &retrip.Transport{PerKey: services.ByHost}
	pretend(transport, 503, "")
	client := &http.Client{Transport: &retrip.IdempotencyKeyTransport{
		Hosts: []string{"api.stripe.com"},
		Base:  transport,
	}}
	resp, err := client.Post("https://api.stripe.com/v1/charges", "application/x-www-form-urlencoded", strings.NewReader("amount=1000"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output: transient: after the backoff
}

// A service that follows the IETF's draft.
func ExampleIETF() {
	transport := &retrip.Transport{PerKey: func(string) *retrip.Strategy { return services.IETF() }}
	show(transport, "GET https://api.example.com/items", 429, "", `RateLimit: "burst";r=0;t=5`)
	// Output: throttled: in 5s, from RateLimit
}

// The waits of the page's Java sample.
func ExampleAlibabaKMSJava() {
	s := services.AlibabaKMSJava()
	for i := range 3 {
		fmt.Println(s.Backoff.Delay(retrip.Retry{Index: i}))
	}
	// Output:
	// 400ms true
	// 800ms true
	// 1.6s true
}
