package webhook

import "github.com/rousehq/rouse/sink/cloudevent"

// EventType is the type of the CloudEvent that a fire is.
const EventType = cloudevent.Type
