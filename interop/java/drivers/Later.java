import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Messages for a time. Bodies are "n due": due is the epoch ms before which the message must not come.
 * "send namesrv topic count firstMs stepMs": by turns with TIMER_DELIVER_MS, TIMER_DELAY_MS and TIMER_DELAY_SEC; last line "sent=N".
 * "consume namesrv topic group expected seconds": last line "distinct=D duplicates=U early=E latest=MS".
 */
public class Later {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        if (args[0].equals("send")) send(args); else consume(args);
        System.exit(0);
    }

    static void send(String[] args) throws Exception {
        int count = Integer.parseInt(args[3]), firstMs = Integer.parseInt(args[4]), stepMs = Integer.parseInt(args[5]), sent = 0;
        DefaultMQProducer producer = new DefaultMQProducer("interop_later");
        producer.setNamesrvAddr(args[1]);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.start();
        for (int n = 0; n < count; n++) {
            long delayMs = firstMs + (long) n * stepMs;
            if (n % 3 == 2) delayMs = (delayMs + 999) / 1000 * 1000;
            long due = System.currentTimeMillis() + delayMs;
            Message message = new Message(args[2], (n + " " + due).getBytes(StandardCharsets.UTF_8));
            if (n % 3 == 0) set(message, "setDeliverTimeMs", "TIMER_DELIVER_MS", due);
            else if (n % 3 == 1) set(message, "setDelayTimeMs", "TIMER_DELAY_MS", delayMs);
            else set(message, "setDelayTimeSec", "TIMER_DELAY_SEC", delayMs / 1000);
            if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) sent++;
        }
        producer.shutdown();
        System.out.println("sent=" + sent);
    }

    /** Clients 4.x have no such setter, and take the name as one of the user's own. */
    static void set(Message message, String setter, String property, long value) throws Exception {
        Method method;
        try {
            method = Message.class.getMethod(setter, long.class);
        } catch (NoSuchMethodException missing) {
            message.putUserProperty(property, Long.toString(value));
            return;
        }
        method.invoke(message, value);
    }

    static void consume(String[] args) throws Exception {
        int expected = Integer.parseInt(args[4]);
        Map<Integer, AtomicInteger> came = new ConcurrentHashMap<>();
        AtomicInteger early = new AtomicInteger();
        AtomicLong latest = new AtomicLong();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3]);
        consumer.setNamesrvAddr(args[1]);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            for (MessageExt message : messages) {
                String[] words = new String(message.getBody(), StandardCharsets.UTF_8).split(" ");
                long late = now - Long.parseLong(words[1]);
                if (late < 0) early.incrementAndGet();
                latest.accumulateAndGet(late, Math::max);
                came.computeIfAbsent(Integer.parseInt(words[0]), key -> new AtomicInteger()).incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = System.currentTimeMillis() + Integer.parseInt(args[5]) * 1000L;
        while (came.size() < expected && System.currentTimeMillis() < end) Thread.sleep(20);
        // What comes twice may come late on a busy machine: it ends when nothing more has come for two seconds.
        for (int before = -1; before != total(came); Thread.sleep(2000)) before = total(came);
        consumer.shutdown();
        System.out.println("distinct=" + came.size() + " duplicates=" + (total(came) - came.size())
            + " early=" + early + " latest=" + latest);
    }

    static int total(Map<Integer, AtomicInteger> came) {
        return came.values().stream().mapToInt(AtomicInteger::get).sum();
    }
}
