import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Apache's Java client for gRPC, two lite push consumers of a group: exclusive, wildcard; the last line is the result. */
public class GrpcLite {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final int WAIT_MS = 60_000;

    public static void main(String[] args) throws Exception {
        String what = args[0], endpoint = args[1], topic = args[2], group = args[3];
        ClientConfiguration configuration = ClientConfiguration.newBuilder()
            .setEndpoints(endpoint).setRequestTimeout(Duration.ofSeconds(10)).enableSsl(false).build();
        Producer producer = PROVIDER.newProducerBuilder()
            .setClientConfiguration(configuration).setTopics(topic).build();
        AtomicInteger first = new AtomicInteger(), second = new AtomicInteger();
        LitePushConsumer one = consumer(configuration, topic, group, first);
        LitePushConsumer other = consumer(configuration, topic, group, second);
        switch (what) {
            case "exclusive": exclusive(producer, topic, one, first, other, second); break;
            case "wildcard": wildcard(producer, topic, first, second); break;
            default: throw new IllegalArgumentException(what);
        }
        System.exit(0);
    }

    static LitePushConsumer consumer(
        ClientConfiguration configuration, String topic, String group, AtomicInteger count) throws Exception {
        return PROVIDER.newLitePushConsumerBuilder()
            .setClientConfiguration(configuration).bindTopic(topic).setConsumerGroup(group)
            .setMessageListener(view -> {
                count.incrementAndGet();
                return ConsumeResult.SUCCESS;
            }).build();
    }

    static void send(Producer producer, String topic, String lite, String body) throws Exception {
        producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setLiteTopic(lite)
            .setBody(body.getBytes(StandardCharsets.UTF_8)).build());
    }

    static void until(BooleanSupplier condition) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        while (!condition.getAsBoolean() && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
    }

    /** Messages of many lite topics, which nobody subscribes to: how many the two got together. */
    static void wildcard(Producer producer, String topic, AtomicInteger first, AtomicInteger second) throws Exception {
        for (int number = 0; number < 60; number++) {
            send(producer, topic, "lite-" + number % 20, Integer.toString(number));
        }
        until(() -> first.get() + second.get() >= 60);
        Thread.sleep(1000);
        System.out.println("got=" + (first.get() + second.get()));
    }

    /** A lite topic of one is taken by the other, then by the first again: how many messages each got at each owner. */
    static void exclusive(Producer producer, String topic, LitePushConsumer one, AtomicInteger first,
        LitePushConsumer other, AtomicInteger second) throws Exception {
        one.subscribeLite("a");
        one.subscribeLite("b");
        send(producer, topic, "a", "1");
        until(() -> first.get() == 1);
        other.subscribeLite("a");
        until(() -> !one.getLiteTopicSet().contains("a"));
        int left = one.getLiteTopicSet().size();
        send(producer, topic, "a", "2");
        send(producer, topic, "b", "3");
        until(() -> first.get() == 2 && second.get() == 1);
        one.subscribeLite("a");
        until(() -> other.getLiteTopicSet().isEmpty());
        send(producer, topic, "a", "4");
        until(() -> first.get() == 3);
        System.out.println("left=" + left + " others=" + other.getLiteTopicSet().size()
            + " first=" + first + " second=" + second);
    }
}
