package servers

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestRabbitMQIsFresh holds that virtual hosts of one broker know nothing of each other, and end with their tests.
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
