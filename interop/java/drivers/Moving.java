import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Clients that go on while their broker moves: pairs of a producer and a consumer, each pair with a topic of its own and
 * clients of its own, started apart so that they ask for routes at different times. Each consumer refuses every tenth
 * message once, to have it again after 10 s. Before "pairs ready", each pair also sends 10 messages for 30 s later and 10 half
 * messages whose end only a question of the broker gets. A line on the input ends the sends.
 *
 * Arguments: name server, prefix of topics, ms between two looks at the routes, pairs, seconds to wait at the end.
 * Lines: "pair=I sent=N failed=F send_pause_ms=P read_pause_ms=R lost=L again=A".
 */
public class Moving {
    static final int FEW = 10, DELAYED = 10_000_000, HALF = 20_000_000;

    static class Pair {
        final Set<Integer> acked = ConcurrentHashMap.newKeySet();
        final Map<Integer, AtomicInteger> read = new ConcurrentHashMap<>();
        final Set<Integer> refused = ConcurrentHashMap.newKeySet();
        final List<Long> ackedAt = java.util.Collections.synchronizedList(new ArrayList<>());
        final List<Long> readAt = java.util.Collections.synchronizedList(new ArrayList<>());
        final DefaultMQProducer producer;
        final TransactionMQProducer undecided;
        final DefaultMQPushConsumer consumer;
        final String topic;
        volatile int failed;
        volatile boolean ends;

        Pair(String namesrv, String topic, int lookMs) {
            this.topic = topic;
            producer = new DefaultMQProducer(topic + "_producer");
            producer.setNamesrvAddr(namesrv);
            producer.setInstanceName(topic);
            producer.setVipChannelEnabled(false);
            producer.setPollNameServerInterval(lookMs);
            undecided = new TransactionMQProducer(topic + "_undecided");
            undecided.setNamesrvAddr(namesrv);
            undecided.setInstanceName(topic);
            undecided.setVipChannelEnabled(false);
            undecided.setTransactionListener(new TransactionListener() {
                public LocalTransactionState executeLocalTransaction(Message message, Object number) {
                    return LocalTransactionState.UNKNOW;
                }

                public LocalTransactionState checkLocalTransaction(MessageExt message) {
                    return LocalTransactionState.COMMIT_MESSAGE;
                }
            });
            consumer = new DefaultMQPushConsumer(topic + "_group");
            consumer.setNamesrvAddr(namesrv);
            consumer.setInstanceName(topic);
            consumer.setVipChannelEnabled(false);
            consumer.setPollNameServerInterval(lookMs);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }

        void start() throws Exception {
            producer.start();
            undecided.start();
            while (!send(0)) Thread.sleep(200);  // makes the topic
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    int number = Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8));
                    if (number % 10 == 5 && number < DELAYED && refused.add(number)) return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    if (number < DELAYED && !refused.contains(number)) readAt.add(System.nanoTime());
                    read.computeIfAbsent(number, key -> new AtomicInteger()).incrementAndGet();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.setConsumeMessageBatchMaxSize(1);
            consumer.start();
            Thread sends = new Thread(this::sends);
            sends.setDaemon(true);
            sends.start();
        }

        void sends() {
            for (int number = 1; !ends; number++) {
                if (send(number)) ackedAt.add(System.nanoTime()); else failed++;
                pause(5);
            }
        }

        boolean send(int number) {
            try {
                if (producer.send(message(number)).getSendStatus() == SendStatus.SEND_OK) return acked.add(number);
            } catch (Exception error) {
                pause(20);
            }
            return false;
        }

        void leaveOpen() throws Exception {
            for (int n = 0; n < FEW; n++) {
                Message late = message(DELAYED + n);
                late.setDelayTimeLevel(4);
                if (producer.send(late).getSendStatus() == SendStatus.SEND_OK) acked.add(DELAYED + n);
                if (undecided.sendMessageInTransaction(message(HALF + n), n).getSendStatus() == SendStatus.SEND_OK) acked.add(HALF + n);
            }
        }

        Message message(int number) {
            return new Message(topic, "A", Integer.toString(number).getBytes(StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        int lookMs = Integer.parseInt(args[2]), count = Integer.parseInt(args[3]), seconds = Integer.parseInt(args[4]);
        List<Pair> pairs = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            pairs.add(new Pair(args[0], args[1] + n, lookMs));
            pairs.get(n).start();
            pause(lookMs / count);
        }
        for (Pair pair : pairs) while (pair.readAt.size() < 100) pause(20);
        for (Pair pair : pairs) pair.leaveOpen();
        for (Pair pair : pairs) {
            pair.ackedAt.clear();
            pair.readAt.clear();
        }
        System.out.println("pairs ready");
        System.in.read();
        for (Pair pair : pairs) pair.ends = true;
        for (long end = System.currentTimeMillis() + seconds * 1000L; System.currentTimeMillis() < end && lost(pairs) > 0; ) pause(100);
        pause(1000);
        for (int n = 0; n < count; n++) {
            Pair pair = pairs.get(n);
            int again = 0;
            for (AtomicInteger times : pair.read.values()) again += times.get() - 1;
            Set<Integer> lost = new HashSet<>(pair.acked);
            lost.removeAll(pair.read.keySet());
            System.out.println("pair=" + n + " sent=" + pair.acked.size() + " failed=" + pair.failed + " send_pause_ms=" + longest(pair.ackedAt)
                + " read_pause_ms=" + longest(pair.readAt) + " lost=" + lost.size() + " again=" + again);
            if (!lost.isEmpty()) System.err.println("pair " + n + " lost " + lost);
        }
        System.out.println("pairs ended");
        System.exit(0);
    }

    static int lost(List<Pair> pairs) {
        int lost = 0;
        for (Pair pair : pairs) for (int number : pair.acked) if (!pair.read.containsKey(number)) lost++;
        return lost;
    }

    static long longest(List<Long> times) {
        long longest = 0;
        synchronized (times) {
            List<Long> ordered = new ArrayList<>(times);
            ordered.sort(null);
            for (int n = 1; n < ordered.size(); n++) longest = Math.max(longest, ordered.get(n) - ordered.get(n - 1));
        }
        return longest / 1_000_000;
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
