import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumes until `expected` different numbers were accepted or the time is up. Every number divisible by `failEvery`
 * is refused once (0 = never). An expression "sql:..." is SQL92. Last line: "distinct=D duplicates=U retried=R disorder=O wrongtag=W sum=S".
 */
public class Consume {
    static final Map<Integer, AtomicInteger> accepted = new ConcurrentHashMap<>();
    static final Map<Integer, Boolean> refused = new ConcurrentHashMap<>();
    static final Map<Integer, Long> lastOffset = new ConcurrentHashMap<>();
    static final AtomicInteger retried = new AtomicInteger(), disorder = new AtomicInteger(), wrongTag = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        String namesrv = args[0], topic = args[1], group = args[2], expression = args[3], mode = args[4];
        int expected = Integer.parseInt(args[5]), seconds = Integer.parseInt(args[6]), failEvery = Integer.parseInt(args[7]);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, Signed.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        if (expression.startsWith("sql:")) consumer.subscribe(topic, MessageSelector.bySql(expression.substring(4)));
        else consumer.subscribe(topic, expression);
        if (mode.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt message : messages) {
                    Long last = lastOffset.get(message.getQueueId());
                    if (last != null && message.getQueueOffset() < last) disorder.incrementAndGet();
                    lastOffset.put(message.getQueueId(), message.getQueueOffset());
                    if (refuse(message, failEvery)) return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    accept(message, expression);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    if (refuse(message, failEvery)) { context.setDelayLevelWhenNextConsume(1); return ConsumeConcurrentlyStatus.RECONSUME_LATER; }
                    accept(message, expression);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (accepted.size() < expected && System.currentTimeMillis() < end) Thread.sleep(20);
        // What comes twice may come late on a busy machine: it ends when nothing more has come for two seconds.
        for (int before = -1; before != total(); Thread.sleep(2000)) before = total();
        long sum = 0;
        int duplicates = 0;
        for (Map.Entry<Integer, AtomicInteger> entry : accepted.entrySet()) {
            sum += entry.getKey();
            duplicates += entry.getValue().get() - 1;
        }
        consumer.shutdown();
        System.out.println("distinct=" + accepted.size() + " duplicates=" + duplicates + " retried=" + retried
            + " disorder=" + disorder + " wrongtag=" + wrongTag + " sum=" + sum);
        System.exit(0);
    }

    static int total() {
        return accepted.values().stream().mapToInt(AtomicInteger::get).sum();
    }

    static int number(MessageExt message) {
        return Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8).trim());
    }

    static boolean refuse(MessageExt message, int failEvery) {
        return failEvery > 0 && number(message) % failEvery == 0 && refused.putIfAbsent(number(message), true) == null;
    }

    static void accept(MessageExt message, String expression) {
        if (refused.containsKey(number(message))) retried.incrementAndGet();
        if (!expression.equals("*") && !expression.startsWith("sql:") && !List.of(expression.split(" *\\|\\| *")).contains(message.getTags())) wrongTag.incrementAndGet();
        accepted.computeIfAbsent(number(message), key -> new AtomicInteger()).incrementAndGet();
    }
}
