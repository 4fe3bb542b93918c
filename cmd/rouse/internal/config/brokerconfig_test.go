package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rousehq/rouse/sink/broker"
)

// TestBrokerSettingsAreDocumented compares the table of docs/brokers.md with what a file of brokers may have.
func TestBrokerSettingsAreDocumented(t *testing.T) {
	body, err := os.ReadFile("../../../../docs/brokers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(body), "## The file")
	file, _, _ = strings.Cut(file, "## Messages")
	settings := map[string]bool{}
	for f := range reflect.TypeFor[brokerEntry]().Fields() {
		name := f.Tag.Get("yaml")
		settings[name] = true
		if !strings.Contains(file, "`"+name+"`") {
			t.Errorf("docs/brokers.md does not tell of the setting %s", name)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(file, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			if !settings[strings.Trim(name, "`")] {
				t.Errorf("docs/brokers.md tells of %s, which is no setting", name)
			}
		}
	}
	_, example, _ := strings.Cut(file, "```yml\n")
	example, _, _ = strings.Cut(example, "```")
	name := t.TempDir() + "/brokers.yaml"
	if err := os.WriteFile(name, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RABBITMQ_PASSWORD", "$ecret")
	t.Setenv("REDIS_PASSWORD", "")
	c := Config{BrokersFile: name}
	list, err := c.LoadBrokers()
	if err != nil || len(list) != 3 {
		t.Fatalf("the example is read as %v, %v", list, err)
	}
	want := broker.Connection{Name: "orders", URL: "amqps://rouse:$ecret@rabbitmq.example.com/shop", Allow: []string{"events/order.", "/mail$"}}
	if !reflect.DeepEqual(list[2], want) {
		t.Errorf("a connection of the example is read as %+v", list[2])
	}
}
