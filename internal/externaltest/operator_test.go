package externaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// publisher has every WebPage published by a service that is no part of the cluster: one record for
// each.
type publisher struct {
	service client
	// published are the records as last seen or written, and read what a run reads: from there, or by
	// asking.
	published *eventsource.Values[record]
	read      func(ctx context.Context, page *v1.WebPage) ([]record, error)
}

func (p *publisher) Reconcile(ctx context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	none := framework.NoUpdate[*v1.WebPage]()
	records, err := p.read(ctx, page)
	if err != nil {
		return none, err
	}
	if len(records) == 0 || records[0].Gone || records[0].HTML != page.Spec.HTML {
		written, err := p.service.put(ctx, record{Page: trc.KeyOf(page), HTML: page.Spec.HTML})
		if err != nil {
			return none, err
		}
		// From here on it is read, and neither a poll that began before nor a later one makes the page
		// due for it.
		p.published.Wrote(written.Page, written)
		records = []record{written}
	}
	if url := records[0].URL; page.Status.URL != url {
		page.Status.URL = url
		return framework.PatchStatus(page), nil
	}
	return none, nil
}

// Cleanup makes the framework put a finalizer on each page, as nobody else would remove its record.
func (p *publisher) Cleanup(ctx context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (framework.DeleteControl, error) {
	if err := p.service.remove(ctx, trc.KeyOf(page)); err != nil {
		return framework.KeepFinalizer(), err
	}
	p.published.Removed(trc.KeyOf(page), "")
	return framework.RemoveFinalizer(), nil
}

const period, timeout = 50 * time.Millisecond, 400 * time.Millisecond // minutes and seconds in real life

// values are told apart by the version that the service gives them: a push may come before the
// answer to an older write.
var values = eventsource.ValuesOptions[record]{Older: func(value, than record) bool { return value.Version < than.Version }}

// byPolling asks the service for all records at once.
func byPolling(service client) (*publisher, eventsource.Source, error) {
	polling, err := eventsource.NewPolling(eventsource.PollingOptions[record]{
		Name: "records", Period: period, Timeout: timeout, Values: values,
		Fetch: func(ctx context.Context) (map[trc.Key][]record, error) {
			all, err := service.list(ctx)
			byPage := map[trc.Key][]record{}
			for _, r := range all {
				byPage[r.Page] = append(byPage[r.Page], r)
			}
			return byPage, err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return &publisher{service: service, published: polling.Values, read: func(_ context.Context, page *v1.WebPage) ([]record, error) {
		return polling.Of(trc.KeyOf(page)), nil // no run before the first poll has succeeded
	}}, polling, nil
}

// byPollingEach asks it about each page by itself.
func byPollingEach(service client) (*publisher, eventsource.Source, error) {
	polling, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[*v1.WebPage, record]{
		Name: "records", Period: period, Timeout: timeout, Values: values,
		Fetch: func(ctx context.Context, page *v1.WebPage) (eventsource.Fetched[record], error) {
			found, err := service.get(ctx, trc.KeyOf(page))
			return eventsource.Fetched[record]{Values: found}, err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return &publisher{service: service, published: polling.Values, read: polling.Fetch}, polling, nil
}

// byPush has the service call a web hook; what it has not told of is asked for once.
func byPush(service client, hooks *http.ServeMux) (*publisher, eventsource.Source, error) {
	pushes, err := eventsource.NewInbound(eventsource.InboundOptions[record]{Name: "records", Timeout: timeout, Values: values, Fetch: service.get})
	if err != nil {
		return nil, nil, err
	}
	hooks.HandleFunc("POST /records", func(w http.ResponseWriter, r *http.Request) {
		var pushed record
		if err := json.NewDecoder(r.Body).Decode(&pushed); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		pushes.Push(pushed.Page, pushed) // also that it is gone: that has a version, too
	})
	return &publisher{service: service, published: pushes.Values, read: func(ctx context.Context, page *v1.WebPage) ([]record, error) {
		return pushes.Fetch(ctx, trc.KeyOf(page))
	}}, pushes, nil
}

// client speaks with the service.
type client struct {
	*http.Client
	url string
}

func (c client) list(ctx context.Context) (all []record, err error) {
	return all, c.do(ctx, http.MethodGet, "/records", nil, &all)
}

func (c client) get(ctx context.Context, page trc.Key) ([]record, error) {
	var found record
	err := c.do(ctx, http.MethodGet, "/records/"+page.String(), nil, &found)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	return []record{found}, err
}

func (c client) put(ctx context.Context, r record) (written record, err error) {
	return written, c.do(ctx, http.MethodPut, "/records/"+r.Page.String(), r, &written)
}

func (c client) remove(ctx context.Context, page trc.Key) error {
	err := c.do(ctx, http.MethodDelete, "/records/"+page.String(), nil, nil)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

var errNone = errors.New("there is no such record")

func (c client) do(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return errNone
	case response.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	case answer == nil:
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
