import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Apache's Java client for gRPC: send COUNT BYTES THREADS GROUPS, push, simple, transact; the last line is the result. */
public class Grpc {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    static ClientConfiguration configuration(String endpoint) {
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(endpoint).setRequestTimeout(Duration.ofSeconds(10)).enableSsl(Boolean.getBoolean("ssl"));
        String key = System.getProperty("accessKey");
        if (key != null) {
            builder.setCredentialProvider(new StaticSessionCredentialsProvider(key, System.getProperty("secretKey")));
        }
        return builder.build();
    }

    public static void main(String[] args) throws Exception {
        String what = args[0], endpoint = args[1], topic = args[2];
        switch (what) {
            case "send": send(endpoint, topic, number(args[3]), number(args[4]), number(args[5]), number(args[6])); break;
            case "push": push(endpoint, topic, args[3], args[4], number(args[5]), number(args[6]), number(args[7])); break;
            case "simple": simple(endpoint, topic, args[3], number(args[4]), number(args[5])); break;
            case "transact": transact(endpoint, topic, number(args[3])); break;
            default: throw new IllegalArgumentException(what);
        }
        System.exit(0);
    }

    static int number(String text) {
        return Integer.parseInt(text);
    }

    /** Numbered bodies; with groups each goes to the group of its number. */
    static void send(String endpoint, String topic, int count, int bytes, int threads, int groups) throws Exception {
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration(endpoint))
            .setTopics(topic).build();
        AtomicInteger next = new AtomicInteger(), sent = new AtomicInteger(), failed = new AtomicInteger();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        for (int thread = 0; thread < threads; thread++) {
            pool.submit(() -> {
                for (int n = next.getAndIncrement(); n < count; n = next.getAndIncrement()) {
                    StringBuilder body = new StringBuilder().append(n).append(' ');
                    while (body.length() < bytes) {
                        body.append('x');
                    }
                    MessageBuilder message = PROVIDER.newMessageBuilder().setTopic(topic)
                        .setBody(body.toString().getBytes(StandardCharsets.UTF_8)).setTag("AB".substring(n % 2, n % 2 + 1))
                        .setKeys("k" + n).addProperty("n", String.valueOf(n));
                    if (groups > 0) {
                        message.setMessageGroup("group" + n % groups);
                    }
                    try {
                        producer.send(message.build());
                        sent.incrementAndGet();
                    } catch (Throwable error) {
                        if (failed.getAndIncrement() < 3) {
                            error.printStackTrace();
                        }
                    }
                }
            });
        }
        pool.shutdown();
        pool.awaitTermination(120, TimeUnit.SECONDS);
        producer.close();
        System.out.println("sent=" + sent + " failed=" + failed);
    }

    static int numberOf(MessageView view) {
        ByteBuffer body = view.getBody();
        byte[] bytes = new byte[body.remaining()];
        body.get(bytes);
        return number(new String(bytes, StandardCharsets.UTF_8).split(" ")[0]);
    }

    static class Seen {
        final Map<Integer, Integer> byNumber = new ConcurrentHashMap<>();
        final Map<String, Integer> lastOfGroup = new ConcurrentHashMap<>();
        final AtomicInteger disorder = new AtomicInteger(), retried = new AtomicInteger();

        int take(MessageView view) {
            int n = numberOf(view);
            byNumber.merge(n, 1, Integer::sum);
            if (view.getDeliveryAttempt() > 1) {
                retried.incrementAndGet();
            } else {
                view.getMessageGroup().ifPresent(group -> {
                    Integer before = lastOfGroup.put(group, n);
                    if (before != null && before > n) {
                        disorder.incrementAndGet();
                    }
                });
            }
            return n;
        }

        void print() {
            long sum = byNumber.keySet().stream().mapToLong(n -> n).sum();
            int duplicates = byNumber.values().stream().mapToInt(n -> n - 1).sum();
            System.out.println("distinct=" + byNumber.size() + " sum=" + sum + " duplicates=" + duplicates
                + " retried=" + retried + " disorder=" + disorder);
        }
    }

    /** Until so many numbers were seen, and a second more; the first `fails` of them fail once. */
    static void push(String endpoint, String topic, String group, String filter, int count, int fails, int seconds)
        throws Exception {
        Seen seen = new Seen();
        FilterExpression expression = filter.contains("=")
            ? new FilterExpression(filter, FilterExpressionType.SQL92) : new FilterExpression(filter);
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration(endpoint))
            .setConsumerGroup(group).setSubscriptionExpressions(Collections.singletonMap(topic, expression))
            .setMessageListener(view -> seen.take(view) < fails && view.getDeliveryAttempt() == 1
                ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS).build();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while ((seen.byNumber.size() < count || seen.retried.get() < fails) && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        Thread.sleep(1000);
        consumer.close();
        seen.print();
    }

    /** Receives and acknowledges; of each number below `later` the invisible time is made short once. */
    static void simple(String endpoint, String topic, String group, int count, int later) throws Exception {
        Seen seen = new Seen();
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration(endpoint))
            .setConsumerGroup(group).setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression("*"))).build();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while ((seen.byNumber.size() < count || seen.retried.get() < later) && System.nanoTime() < end) {
            for (MessageView view : consumer.receive(32, Duration.ofSeconds(30))) {
                if (seen.take(view) < later && view.getDeliveryAttempt() == 1) {
                    consumer.changeInvisibleDuration(view, Duration.ofSeconds(10));
                } else {
                    consumer.ack(view);
                }
            }
        }
        consumer.close();
        seen.print();
    }

    /** Of each three transactions one is committed, one rolled back, one left to be asked for and committed then. */
    static void transact(String endpoint, String topic, int count) throws Exception {
        AtomicInteger asked = new AtomicInteger();
        AtomicLong sent = new AtomicLong();
        ProducerBuilder builder = PROVIDER.newProducerBuilder().setClientConfiguration(configuration(endpoint))
            .setTopics(topic).setTransactionChecker(view -> {
                asked.incrementAndGet();
                return TransactionResolution.COMMIT;
            });
        Producer producer = builder.build();
        for (int n = 0; n < count; n++) {
            Transaction transaction = producer.beginTransaction();
            producer.send(PROVIDER.newMessageBuilder().setTopic(topic)
                .setBody((n + " ").getBytes(StandardCharsets.UTF_8)).build(), transaction);
            sent.incrementAndGet();
            if (n % 3 == 0) {
                transaction.commit();
            } else if (n % 3 == 1) {
                transaction.rollback();
            }
        }
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (asked.get() < count / 3 && System.nanoTime() < end) {
            Thread.sleep(20);
        }
        Thread.sleep(1000);
        producer.close();
        System.out.println("sent=" + sent + " asked=" + asked);
    }
}
