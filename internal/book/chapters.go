package book

// chapter is a group of pages in the table of contents.
type chapter struct {
	title string
	pages []string // names of files, without .md
}

// chapters are all pages, in the order in which a new user reads them.
var chapters = []chapter{
	{"Begin", []string{"start", "concepts", "tour", "recipes", "comparison", "moving-in"}},
	{"Timers", []string{"schedules", "policies", "named-limits", "delivery", "brokers", "transactions"}},
	{"Programs", []string{"api", "cli", "clients", "library", "mcp"}},
	{"Workers, reminders and actors", []string{"pools-store", "pools", "reminders", "actors",
		"reminders-migrate", "dapr"}},
	{"Production", []string{"install", "production", "kubernetes", "configuration", "stores", "capacity",
		"compatibility"}},
	{"Security", []string{"security", "access", "namespaces", "tls", "secrets", "audit"}},
	{"Operations", []string{"console", "operations", "runbooks", "reliability", "history"}},
	{"Reference", []string{"guarantees", "track-record", "limits", "performance", "designs", "glossary", "faq"}},
}
