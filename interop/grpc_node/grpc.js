// Apache's client for Node as a process: `node grpc.js WHAT ENDPOINT USER TLS TOPIC ...`, as interop/grpc_python.py.
// It prints a JSON line for each thing that happened.
'use strict';

const { writeSync } = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const WAIT_MS = 40_000;
const silent = () => {};
const logger = { debug: silent, info: silent, warn: console.error, error: console.error, close: silent };

function say(what) {
  writeSync(1, `${JSON.stringify(what)}\n`);
}

function seen(view) {
  return {
    body: view.body.subarray(0, 200).toString(),
    bytes: view.body.length,
    tag: view.tag || null,
    keys: [...view.keys].sort(),
    properties: Object.fromEntries(view.properties),
    id: view.messageId,
    group: view.messageGroup || null,
    attempt: view.deliveryAttempt,
    corrupted: view.corrupted === true,
  };
}

function messageOf(topic, given) {
  return {
    topic,
    body: given.bytes ? Buffer.alloc(given.bytes, given.body) : Buffer.from(given.body),
    tag: given.tag,
    keys: given.keys ?? [],
    messageGroup: given.group,
    delay: given.delay && given.delay * 1000,
    priority: given.priority,
    properties: new Map(Object.entries(given.properties ?? {})),
  };
}

async function send(options, topic, messages) {
  const producer = new Producer({ ...options, topics: [topic] });
  await producer.startup();
  for (const given of JSON.parse(messages)) {
    try {
      say({ sent: (await producer.send(messageOf(topic, given))).messageId });
    } catch (error) {
      say({ refused: String(error) });
    }
  }
  await producer.shutdown();
}

/** Receives so many messages and does with them what is asked: ack, keep, later (visible again after 10 s). */
async function receive(options, topic, consumerGroup, count, what) {
  const subscriptions = new Map([[topic, '*']]);
  const consumer = new SimpleConsumer({ ...options, consumerGroup, subscriptions, awaitDuration: 5000 });
  await consumer.startup();
  const deadline = Date.now() + WAIT_MS;
  for (let left = Number(count); left > 0 && Date.now() < deadline;) {
    for (const view of await consumer.receive(32, 10_000)) {
      say({ received: seen(view) });
      left--;
      if (what === 'ack') {
        await consumer.ack(view);
      } else if (what === 'later') {
        await consumer.changeInvisibleDuration(view, 10_000);
      }
    }
  }
  await consumer.shutdown();
}

async function push(options, topic, consumerGroup, count, expression, failsFirst) {
  let pushed = 0;
  const messageListener = {
    async consume(view) {
      say({ pushed: seen(view) });
      pushed++;
      return failsFirst === 'fails-first' && view.deliveryAttempt === 1 ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
    },
  };
  const subscriptions = new Map([[topic, new FilterExpression(expression)]]);
  const consumer = new PushConsumer({ ...options, consumerGroup, subscriptions, messageListener });
  await consumer.startup();
  const deadline = Date.now() + WAIT_MS;
  while (pushed < Number(count) && Date.now() < deadline) {
    await sleep(50);
  }
  await sleep(1000); // the last acknowledgements are on their way; a shutdown would wait for 30 s of long polling
}

/** Sends in a transaction and ends it: commit, rollback, or waits to be asked. */
async function transaction(options, topic, end) {
  let isAsked = false;
  const checker = {
    async check(view) {
      say({ asked: seen(view) });
      isAsked = true;
      return TransactionResolution.COMMIT;
    },
  };
  const producer = new Producer({ ...options, topics: [topic], checker });
  await producer.startup();
  const begun = producer.beginTransaction();
  say({ sent: (await producer.send(messageOf(topic, { body: end }), begun)).messageId });
  if (end === 'commit') {
    await begun.commit();
  } else if (end === 'rollback') {
    await begun.rollback();
  } else {
    const deadline = Date.now() + WAIT_MS;
    while (!isAsked && Date.now() < deadline) {
      await sleep(50);
    }
    await sleep(1000); // the answer is on its way
  }
  await producer.shutdown();
}

/** Sends two messages for later and recalls the first. */
async function recall(options, topic, seconds) {
  const producer = new Producer({ ...options, topics: [topic] });
  await producer.startup();
  const [first] = [
    await producer.send(messageOf(topic, { body: 'recalled', delay: Number(seconds) })),
    await producer.send(messageOf(topic, { body: 'kept', delay: Number(seconds) })),
  ];
  say({ sent: first.messageId });
  say({ recalled: (await producer.recallMessage(topic, first.recallHandle)).messageId });
  await producer.shutdown();
}

async function main([what, endpoints, user, tls, ...rest]) {
  const [accessKey, accessSecret] = user.split(':');
  const sessionCredentials = user ? { accessKey, accessSecret } : undefined;
  const options = { endpoints, sessionCredentials, sslEnabled: tls === 'tls', logger, requestTimeout: 10_000 };
  await { send, receive, push, transaction, recall }[what](options, ...rest);
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
