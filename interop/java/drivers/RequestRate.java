import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Asks and answers in one process, one request after the other: `RequestRate NAMESRV TOPIC WARM_MILLIS MEASURE_MILLIS`.
 * Prints "requests=N p50_us=A p99_us=B".
 */
public class RequestRate {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        String namesrv = args[0], topic = args[1];
        DefaultMQProducer producer = new DefaultMQProducer("rate_" + topic);
        producer.setNamesrvAddr(namesrv);
        producer.setVipChannelEnabled(false);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("rate_answers_" + topic);
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    producer.send(MessageUtil.createReplyMessage(message, message.getBody()), 5000);
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        byte[] body = new byte[1024];
        ask(producer, topic, body, 60_000);
        measure(producer, topic, body, Long.parseLong(args[2]));
        List<Long> taken = measure(producer, topic, body, Long.parseLong(args[3]));
        Collections.sort(taken);
        System.out.println("requests=" + taken.size() + " p50_us=" + taken.get(taken.size() / 2)
            + " p99_us=" + taken.get(taken.size() * 99 / 100));
        consumer.shutdown();
        producer.shutdown();
        System.exit(0);
    }

    static List<Long> measure(DefaultMQProducer producer, String topic, byte[] body, long millis) throws Exception {
        List<Long> taken = new ArrayList<>();
        long end = System.nanoTime() + millis * 1_000_000;
        while (System.nanoTime() < end) taken.add(ask(producer, topic, body, 10_000));
        return taken;
    }

    static long ask(DefaultMQProducer producer, String topic, byte[] body, long millis) throws Exception {
        long begun = System.nanoTime();
        producer.request(new Message(topic, body), millis);
        return (System.nanoTime() - begun) / 1000;
    }
}
