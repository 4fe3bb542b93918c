package cloudevent_test

import (
	"fmt"
	"time"

	"github.com/rousehq/rouse"
	"github.com/rousehq/rouse/sink/cloudevent"
)

func ExampleAppend() {
	due := rouse.At(time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC))
	fmt.Printf("%s\n", cloudevent.Append(nil, &rouse.Fire{
		ID: "fire-17", Namespace: "default", Name: "coffee", Generation: 3, Due: due, Attempt: 1, Token: 4,
		Spec: &rouse.Spec{Payload: []byte(`{"cups": 2}`), ContentType: "application/json"},
	}))
	// Output: {"specversion":"1.0","id":"fire-17","source":"/namespaces/default/timers/coffee","type":"dev.rouse.fire.v1","time":"2027-01-01T09:00:00.000Z","subject":"coffee","attempt":1,"token":"4","generation":"3","manual":false,"last":false,"datacontenttype":"application/json","data":{"cups": 2}}
}
