import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * A push consumer whose group pops the topic: "namesrv topic group expression mode expected seconds failEvery invisibleMs".
 * Mode "concurrent", "orderly", or "hold": it acknowledges nothing, and its process dies as soon as it holds `expected`.
 * A number divisible by `failEvery` is refused once. Last line: "distinct=D duplicates=U retried=R disorder=O tries=T pops=P sum=S";
 * tries: the sum of all reconsumeTimes, pops: 1 if messages came by pops.
 */
public class PopConsume {
    static final Map<Integer, AtomicInteger> accepted = new ConcurrentHashMap<>();
    static final Map<Integer, Boolean> refused = new ConcurrentHashMap<>();
    static final Map<Integer, Integer> last = new ConcurrentHashMap<>();
    static final AtomicInteger retried = new AtomicInteger(), disorder = new AtomicInteger(), tries = new AtomicInteger(), pops = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        String namesrv = args[0], topic = args[1], group = args[2], expression = args[3], mode = args[4];
        int expected = Integer.parseInt(args[5]), seconds = Integer.parseInt(args[6]), failEvery = Integer.parseInt(args[7]);
        setMode(namesrv, topic, group, mode.equals("orderly"));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(Integer.parseInt(args[8]));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, expression);
        if (mode.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt message : messages) {
                    look(message);
                    if (refuse(message, failEvery)) return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                    Integer before = last.put(message.getQueueId(), number(message));
                    if (before != null && number(message) < before) disorder.incrementAndGet();
                    accept(message);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    look(message);
                    if (mode.equals("hold")) hold(message, expected);
                    if (refuse(message, failEvery)) { context.setDelayLevelWhenNextConsume(1); return ConsumeConcurrentlyStatus.RECONSUME_LATER; }
                    accept(message);
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (accepted.size() < expected && System.currentTimeMillis() < end) Thread.sleep(20);
        // What comes twice may come late on a busy machine: it ends when nothing more has come for two seconds.
        for (int before = -1; before != total(); Thread.sleep(2000)) before = total();
        print();
        consumer.shutdown();
        System.exit(0);
    }

    static void setMode(String namesrv, String topic, String group, boolean orderly) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(namesrv);
        admin.setVipChannelEnabled(false);
        admin.start();
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(group);
        config.setConsumeMessageOrderly(orderly);
        for (BrokerData broker : admin.examineTopicRouteInfo(topic).getBrokerDatas()) {
            admin.createAndUpdateSubscriptionGroupConfig(broker.selectBrokerAddr(), config);
            admin.setMessageRequestMode(broker.selectBrokerAddr(), topic, group, MessageRequestMode.POP, 0, 10000);
        }
        admin.shutdown();
    }

    static void hold(MessageExt message, int expected) {
        accept(message);
        synchronized (PopConsume.class) {
            if (accepted.size() >= expected) { print(); System.out.flush(); Runtime.getRuntime().halt(0); }
        }
        while (true) try { Thread.sleep(100000); } catch (InterruptedException again) { continue; }
    }

    static void print() {
        long sum = 0;
        for (int number : accepted.keySet()) sum += number;
        System.out.println("distinct=" + accepted.size() + " duplicates=" + (total() - accepted.size()) + " retried=" + retried
            + " disorder=" + disorder + " tries=" + tries + " pops=" + pops + " sum=" + sum);
    }

    static int total() {
        return accepted.values().stream().mapToInt(AtomicInteger::get).sum();
    }

    static int number(MessageExt message) {
        return Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8).trim());
    }

    static void look(MessageExt message) {
        tries.addAndGet(message.getReconsumeTimes());
        if (message.getProperty("POP_CK") != null) pops.set(1);
    }

    static boolean refuse(MessageExt message, int failEvery) {
        return failEvery > 0 && number(message) % failEvery == 0 && refused.putIfAbsent(number(message), true) == null;
    }

    static void accept(MessageExt message) {
        if (refused.containsKey(number(message))) retried.incrementAndGet();
        accepted.computeIfAbsent(number(message), key -> new AtomicInteger()).incrementAndGet();
    }
}
