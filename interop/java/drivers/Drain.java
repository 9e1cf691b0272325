import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer with default settings that only counts, until killed. Every half second one line
 * "ms=T received=N ages=A:C,B:D": clock, messages so far, and of the last half second how many messages (C) reached the
 * listener A whole milliseconds after they were stored. The last age stands for all above.
 */
public class Drain {
    static final int AGES = 10001;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1], group = args[2];
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        LongAdder received = new LongAdder();
        AtomicLongArray ages = new AtomicLongArray(AGES);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            for (MessageExt message : messages) {
                ages.incrementAndGet((int) Math.max(0, Math.min(AGES - 1, now - message.getStoreTimestamp())));
            }
            received.add(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (true) {
            StringBuilder line = new StringBuilder("ms=" + System.currentTimeMillis() + " received=" + received + " ages=");
            for (int age = 0; age < AGES; age++) {
                long count = ages.getAndSet(age, 0);
                if (count > 0) line.append(age).append(':').append(count).append(',');
            }
            System.out.println(line);
            Thread.sleep(500);
        }
    }
}
