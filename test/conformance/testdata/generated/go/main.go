// A program with the client that openapi-generator makes for Go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"generated/rouseapi"
)

func main() {
	for _, url := range os.Args[1:] {
		if err := check(url); err != nil {
			fmt.Fprintln(os.Stderr, url, err)
			os.Exit(1)
		}
	}
}

func check(url string) error {
	ctx, ns := context.Background(), "go"
	config := rouseapi.NewConfiguration()
	config.Servers[0].URL = url
	api := rouseapi.NewAPIClient(config).DefaultAPI

	create := rouseapi.NewCreateTimer("stream:none")
	create.SetName("a/b") // this client does not escape a ":" in a path, where it begins a verb
	create.SetSchedule("@after 1h")
	create.Payload = map[string]any{"n": 1}
	made, _, err := api.CreateTimer(ctx, ns).CreateTimer(*create).Execute()
	if err != nil {
		return err
	}
	if made.State != rouseapi.SCHEDULED || made.Revision == 0 || made.Generation == 0 || made.Due == nil {
		return fmt.Errorf("created %+v", made)
	}
	list, _, err := api.ListTimers(ctx, ns).State([]rouseapi.State{rouseapi.SCHEDULED}).Execute()
	if err != nil || len(list.Timers) != 1 || list.Timers[0].Revision != made.Revision || fmt.Sprint(list.Timers[0].Payload) != "map[n:1]" {
		return fmt.Errorf("listed %+v %v", list, err)
	}

	put := rouseapi.NewPutTimer("stream:none")
	put.SetSchedule("@after 2h")
	put.SetExpectedRevision(made.Revision)
	replaced, _, err := api.PutTimer(ctx, ns, "a/b").PutTimer(*put).Execute()
	if err != nil || replaced.Revision <= made.Revision {
		return fmt.Errorf("replaced %+v %v", replaced, err)
	}
	if _, answer, err := api.PutTimer(ctx, ns, "a/b").PutTimer(*put).Execute(); err == nil || answer.StatusCode != http.StatusConflict {
		return fmt.Errorf("replaced an old revision: %v", err)
	}

	soon := rouseapi.NewCreateTimer("stream:go")
	soon.SetName("soon")
	soon.SetSchedule("@after 1s")
	if _, _, err := api.CreateTimer(ctx, ns).CreateTimer(*soon).Execute(); err != nil {
		return err
	}
	fire, err := poll(ctx, api, ns, "soon")
	if err != nil {
		return err
	}
	if fire.Payload != nil || fire.GetContentType() != "" {
		return fmt.Errorf("the fire has a payload: %+v", fire)
	}
	if _, _, err := api.CompleteFire(ctx, ns, fire.Name, fire.FireId).Complete(*rouseapi.NewComplete(fire.Token)).Execute(); err != nil {
		return err
	}

	for range 2 {
		calm := rouseapi.NewCreateTimer("stream:go")
		calm.SetName("calm")
		calm.SetDebounce(*rouseapi.NewDebounce("1s"))
		if _, _, err := api.CreateTimer(ctx, ns).CreateTimer(*calm).Execute(); err != nil {
			return fmt.Errorf("debounce: %w", err)
		}
	}
	_, err = poll(ctx, api, ns, "calm")
	return err
}

func poll(ctx context.Context, api *rouseapi.DefaultAPIService, ns, name string) (*rouseapi.Fire, error) {
	ask := rouseapi.NewPoll()
	ask.SetChannel("go")
	got, _, err := api.PollFires(ctx, ns).Poll(*ask).Execute()
	if err != nil || len(got.Fires) != 1 || !strings.HasPrefix(got.Fires[0].Name, name) || got.Fires[0].Token == 0 {
		return nil, fmt.Errorf("polled %+v %v", got, err)
	}
	return &got.Fires[0], nil
}
