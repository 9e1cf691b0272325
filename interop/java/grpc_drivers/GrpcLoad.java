import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Apache's Java client for gRPC as a load, until killed: "send ENDPOINT TOPIC THREADS BYTES" sends from each thread one
 * message after the other; "receive ENDPOINT TOPIC THREADS GROUP" receives 32 at a time and acknowledges each of them,
 * all of one receive at once. Every half second one line "ms=T done=N failed=F".
 */
public class GrpcLoad {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static final LongAdder DONE = new LongAdder(), FAILED = new LongAdder();

    interface Step {
        void run() throws Throwable;
    }

    public static void main(String[] args) throws Exception {
        String what = args[0], topic = args[2];
        int threads = Integer.parseInt(args[3]);
        ClientConfiguration configuration = ClientConfiguration.newBuilder().setEndpoints(args[1])
            .setRequestTimeout(Duration.ofSeconds(10)).enableSsl(false).build();
        if (what.equals("send")) {
            byte[] body = new byte[Integer.parseInt(args[4])];
            java.util.Arrays.fill(body, (byte) 'x');
            Producer producer = begun(() -> PROVIDER.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(topic).build());
            start(threads, () -> {
                producer.send(PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).setTag("A").setKeys("k").build());
                DONE.increment();
            });
        } else {
            SimpleConsumer consumer = begun(() -> PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration).setConsumerGroup(args[4]).setAwaitDuration(Duration.ofSeconds(5))
                .setSubscriptionExpressions(Collections.singletonMap(topic, new FilterExpression("*"))).build());
            start(threads, () -> {
                java.util.List<java.util.concurrent.CompletableFuture<Void>> acks = new java.util.ArrayList<>();
                for (MessageView view : consumer.receive(32, Duration.ofSeconds(60))) {
                    acks.add(consumer.ackAsync(view));
                }
                for (java.util.concurrent.CompletableFuture<Void> ack : acks) {
                    ack.get();
                    DONE.increment();
                }
            });
        }
        while (true) {
            System.out.println("ms=" + System.currentTimeMillis() + " done=" + DONE + " failed=" + FAILED);
            Thread.sleep(500);
        }
    }

    /** A server that has just started may be too slow for the client's own limit of time. */
    static <T> T begun(java.util.concurrent.Callable<T> build) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                return build.call();
            } catch (Exception error) {
                if (tries == 4) {
                    throw error;
                }
            }
        }
    }

    static void start(int threads, Step step) {
        for (int thread = 0; thread < threads; thread++) {
            new Thread(() -> {
                while (true) {
                    try {
                        step.run();
                    } catch (Throwable error) {
                        FAILED.increment();
                    }
                }
            }).start();
        }
    }
}
