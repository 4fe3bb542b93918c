package webhook

import "github.com/rousehq/rouse/sink/cloudevent"

// EventType is the CloudEvents type of a fire.
const EventType = cloudevent.Type
