//go:build unix

package servers

import (
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestRabbitMQIsFresh: virtual hosts of one broker are independent, and are removed with their tests.
func TestRabbitMQIsFresh(t *testing.T) {
	t.Parallel()
	var gone string
	t.Run("one", func(t *testing.T) {
		gone = RabbitMQ(t)
		other := RabbitMQ(t)
		err := onChannel(gone, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("mine", true, false, false, false, nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = onChannel(other, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive("mine", true, false, false, false, nil)
			return err
		})
		if err == nil {
			t.Error("a queue of one virtual host is in another")
		}
	})
	if err := onChannel(gone, func(*amqp.Channel) error { return nil }); err == nil {
		t.Errorf("%s has outlived its test", gone)
	}
}

// TestManagedRabbitMQ: the HTTP API answers, and belongs to the broker at the URL.
func TestManagedRabbitMQ(t *testing.T) {
	t.Parallel()
	address, api := ManagedRabbitMQ(t)
	err := onChannel(address, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("mine", true, false, false, false, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	uri, err := amqp.ParseURI(address)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(api + "/api/queues/" + uri.Vhost + "/mine")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // of a test
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the API answers %s for a queue that is there", answer.Status)
	}
}
