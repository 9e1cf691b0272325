// Apache's client for Go as a process: `grpc WHAT ENDPOINT USER TLS TOPIC ...`, as interop/grpc_python.py. It prints a
// JSON line for each thing that happened. TLS is told by the environment, as this client wants it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const waitSeconds = 40

type given struct {
	Body       string
	Bytes      int
	Tag        *string
	Keys       []string
	Group      *string
	Delay      int
	Properties map[string]string
}

func say(what string, value any) {
	line, err := json.Marshal(map[string]any{what: value})
	check(err)
	_, err = os.Stdout.Write(append(line, '\n'))
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func seen(view *rmq.MessageView) map[string]any {
	body := view.GetBody()
	keys := append([]string{}, view.GetKeys()...)
	sort.Strings(keys)
	properties := view.GetProperties()
	if properties == nil {
		properties = map[string]string{}
	}
	return map[string]any{
		"body": string(body[:min(len(body), 200)]), "bytes": len(body), "tag": view.GetTag(), "keys": keys,
		"properties": properties, "id": view.GetMessageId(), "group": view.GetMessageGroup(),
		"attempt": view.GetDeliveryAttempt(),
	}
}

func messageOf(topic string, each given) *rmq.Message {
	body := []byte(each.Body)
	if each.Bytes > 0 {
		body = bytes.Repeat(body, each.Bytes/len(body))
	}
	message := &rmq.Message{Topic: topic, Body: body, Tag: each.Tag}
	message.SetKeys(each.Keys...)
	if each.Group != nil {
		message.SetMessageGroup(*each.Group)
	}
	if each.Delay > 0 {
		message.SetDelayTimestamp(time.Now().Add(time.Duration(each.Delay) * time.Second))
	}
	for name, value := range each.Properties {
		message.AddProperty(name, value)
	}
	return message
}

func producerOf(config *rmq.Config, topic string, options ...rmq.ProducerOption) rmq.Producer {
	producer, err := rmq.NewProducer(config, append(options, rmq.WithTopics(topic))...)
	check(err)
	check(producer.Start())
	return producer
}

func send(config *rmq.Config, topic string, words []string) {
	var messages []given
	check(json.Unmarshal([]byte(words[0]), &messages))
	producer := producerOf(config, topic)
	for _, each := range messages {
		receipts, err := producer.Send(context.Background(), messageOf(topic, each))
		if err != nil {
			say("refused", err.Error())
		} else {
			say("sent", receipts[0].MessageID)
		}
	}
	check(producer.GracefulStop())
}

// Receives so many messages and does with them what is asked: ack, keep, later (visible again after 10 s).
func receive(config *rmq.Config, topic string, words []string) {
	config.ConsumerGroup = words[0]
	consumer, err := rmq.NewSimpleConsumer(config, rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	check(err)
	check(consumer.Start())
	deadline := time.Now().Add(waitSeconds * time.Second)
	for left := number(words[1]); left > 0 && time.Now().Before(deadline); {
		views, err := consumer.Receive(context.Background(), 32, 10*time.Second)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			check(err)
		}
		for _, view := range views {
			say("received", seen(view))
			left--
			switch words[2] {
			case "ack":
				check(consumer.Ack(context.Background(), view))
			case "later":
				check(consumer.ChangeInvisibleDuration(view, 10*time.Second))
			}
		}
	}
	check(consumer.GracefulStop())
}

func push(config *rmq.Config, topic string, words []string) {
	config.ConsumerGroup = words[0]
	var pushed atomic.Int64
	consume := func(view *rmq.MessageView) rmq.ConsumerResult {
		say("pushed", seen(view))
		pushed.Add(1)
		if words[3] == "fails-first" && view.GetDeliveryAttempt() == 1 {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}
	consumer, err := rmq.NewPushConsumer(config, rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.NewFilterExpression(words[2])}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}))
	check(err)
	check(consumer.Start())
	deadline := time.Now().Add(waitSeconds * time.Second)
	for pushed.Load() < int64(number(words[1])) && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second) // the last acknowledgements are on their way; a stop would wait for the long polling
}

// Sends in a transaction and ends it: commit, rollback, or waits to be asked.
func transaction(config *rmq.Config, topic string, words []string) {
	var isAsked atomic.Bool
	producer := producerOf(config, topic, rmq.WithTransactionChecker(&rmq.TransactionChecker{
		Check: func(view *rmq.MessageView) rmq.TransactionResolution {
			say("asked", seen(view))
			isAsked.Store(true)
			return rmq.COMMIT
		},
	}))
	begun := producer.BeginTransaction()
	receipts, err := producer.SendWithTransaction(context.Background(), messageOf(topic, given{Body: words[0]}), begun)
	check(err)
	say("sent", receipts[0].MessageID)
	switch words[0] {
	case "commit":
		check(begun.Commit())
	case "rollback":
		check(begun.RollBack())
	default:
		deadline := time.Now().Add(waitSeconds * time.Second)
		for !isAsked.Load() && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second) // the answer is on its way
	}
	check(producer.GracefulStop())
}

func main() {
	what, endpoint, user, topic := os.Args[1], os.Args[2], os.Args[3], os.Args[5]
	key, secret, _ := strings.Cut(user, ":")
	config := &rmq.Config{Endpoint: endpoint, Credentials: &credentials.SessionCredentials{AccessKey: key, AccessSecret: secret}}
	calls := map[string]func(*rmq.Config, string, []string){
		"send": send, "receive": receive, "push": push, "transaction": transaction,
	}
	calls[what](config, topic, os.Args[6:])
}
