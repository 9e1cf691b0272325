//! Apache's client for Rust as a process: `grpc WHAT ENDPOINT USER TLS TOPIC ...`, as interop/grpc_python.py. It prints
//! a JSON line for each thing that happened. This client has no push consumer, and no change of the invisible time.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::{MessageBuilder, MessageView};
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use serde_json::{json, Value};

type Done = Result<(), Box<dyn Error>>;

const WAIT: Duration = Duration::from_secs(40);

fn say(what: Value) {
    std::io::stdout().write_all(format!("{what}\n").as_bytes()).unwrap();
}

fn seen(view: &MessageView) -> Value {
    let body = view.body();
    let mut keys = view.keys().to_vec();
    keys.sort();
    json!({
        "body": String::from_utf8_lossy(&body[..body.len().min(200)]), "bytes": body.len(), "tag": view.tag(),
        "keys": keys, "properties": view.properties(), "id": view.message_id(), "group": view.message_group(),
        "attempt": view.delivery_attempt(),
    })
}

fn builder_of(topic: &str, given: &Value) -> MessageBuilder {
    let mut body = given["body"].as_str().unwrap().as_bytes().to_vec();
    if let Some(bytes) = given["bytes"].as_u64() {
        body = body.repeat(bytes as usize / body.len());
    }
    let mut builder = MessageBuilder::builder().set_topic(topic).set_body(body);
    if let Some(tag) = given["tag"].as_str() {
        builder = builder.set_tag(tag);
    }
    if let Some(keys) = given["keys"].as_array() {
        builder = builder.set_keys(keys.iter().map(|key| key.as_str().unwrap()).collect());
    }
    if let Some(group) = given["group"].as_str() {
        builder = builder.set_message_group(group);
    }
    if let Some(delay) = given["delay"].as_u64() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        builder = builder.set_delivery_timestamp((now + delay) as i64);
    }
    if let Some(properties) = given["properties"].as_object() {
        let own: HashMap<String, String> =
            properties.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_string())).collect();
        builder = builder.set_properties(own);
    }
    builder
}

fn producer_option(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

async fn send(client: ClientOption, topic: &str, words: &[String]) -> Done {
    let mut producer = Producer::new(producer_option(topic), client)?;
    producer.start().await?;
    for given in serde_json::from_str::<Vec<Value>>(&words[0])? {
        match producer.send(builder_of(topic, &given).build()?).await {
            Ok(receipt) => say(json!({"sent": receipt.message_id()})),
            Err(error) => say(json!({"refused": format!("{error:?}")})),
        }
    }
    Ok(producer.shutdown().await?)
}

/// Receives so many messages and acknowledges them.
async fn receive(mut client: ClientOption, topic: &str, words: &[String]) -> Done {
    client.set_long_polling_timeout(Duration::from_secs(8)); // also the deadline of a receive, which needs 5 s
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(&words[0]);
    let mut consumer = SimpleConsumer::new(option, client)?;
    consumer.start().await?;
    let (mut left, start) = (words[1].parse::<i64>()?, Instant::now());
    let all = FilterExpression::new(FilterType::Tag, "*");
    while left > 0 && start.elapsed() < WAIT {
        for view in consumer.receive_with(topic, &all, 32, Duration::from_secs(10)).await? {
            say(json!({"received": seen(&view)}));
            left -= 1;
            if words[2] == "ack" {
                consumer.ack(&view).await?;
            }
        }
    }
    Ok(consumer.shutdown().await?)
}

/// Sends in a transaction and ends it: commit, rollback, or waits to be asked.
async fn transaction(client: ClientOption, topic: &str, words: &[String]) -> Done {
    let is_asked = Arc::new(AtomicBool::new(false));
    let told = is_asked.clone();
    let checker = Box::new(move |_: String, view: MessageView| {
        say(json!({"asked": seen(&view)}));
        told.store(true, Ordering::SeqCst);
        TransactionResolution::COMMIT
    });
    let mut producer = Producer::new_transaction_producer(producer_option(topic), client, checker)?;
    producer.start().await?;
    let message = MessageBuilder::transaction_message_builder(topic, words[0].clone().into_bytes()).build()?;
    let begun = producer.send_transaction_message(message).await?;
    say(json!({"sent": begun.message_id()}));
    match words[0].as_str() {
        "commit" => begun.commit().await?,
        "rollback" => begun.rollback().await?,
        _ => {
            let start = Instant::now();
            while !is_asked.load(Ordering::SeqCst) && start.elapsed() < WAIT {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await; // the answer is on its way
        }
    }
    Ok(producer.shutdown().await?)
}

#[tokio::main]
async fn main() -> Done {
    let words: Vec<String> = env::args().skip(1).collect();
    let mut client = ClientOption::default();
    client.set_access_url(&words[1]);
    client.set_enable_tls(words[3] == "tls");
    client.set_timeout(Duration::from_secs(10));
    if let Some((key, secret)) = words[2].split_once(':') {
        client.set_access_key(key);
        client.set_secret_key(secret);
    }
    match words[0].as_str() {
        "send" => send(client, &words[4], &words[5..]).await,
        "receive" => receive(client, &words[4], &words[5..]).await,
        "transaction" => transaction(client, &words[4], &words[5..]).await,
        other => Err(other.into()),
    }
}
