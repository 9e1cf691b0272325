import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads one queue of a topic whose good messages are "good N": by push consumers and by a pull consumer, one message a
 * pull and the default number, all at the same time, until each has seen the last good one or the time is up. Last line:
 * for each reader (its group begins with args[5]) "NAME_good=G NAME_disorder=D NAME_last=N".
 */
public class Poisoned {
    static final Map<String, List<Integer>> seen = new LinkedHashMap<>();
    static String prefix;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1];
        int queueId = Integer.parseInt(args[2]), last = Integer.parseInt(args[3]), seconds = Integer.parseInt(args[4]);
        prefix = args[5];
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        consumers.add(push(namesrv, topic, "push1", 1, false));
        consumers.add(push(namesrv, topic, "orderly1", 1, true));
        consumers.add(push(namesrv, topic, "push32", 32, false));
        consumers.add(push(namesrv, topic, "orderly32", 32, true));
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(prefix + "_pull");
        puller.setNamesrvAddr(namesrv);
        puller.setVipChannelEnabled(false);
        puller.start();
        for (int batch : new int[] {1, 32}) {
            Consumer<MessageExt> note = noting("pull" + batch);
            Thread reader = new Thread(() -> pull(puller, topic, queueId, batch, note));
            reader.setDaemon(true);
            reader.start();
        }
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (!allSaw(last) && System.currentTimeMillis() < end) Thread.sleep(20);
        StringBuilder line = new StringBuilder();
        synchronized (seen) {
            for (Map.Entry<String, List<Integer>> entry : seen.entrySet()) {
                List<Integer> numbers = entry.getValue();
                int disorder = 0;
                for (int at = 1; at < numbers.size(); at++) if (numbers.get(at) <= numbers.get(at - 1)) disorder++;
                String name = entry.getKey();
                line.append(name + "_good=" + numbers.size() + " " + name + "_disorder=" + disorder + " " + name + "_last="
                    + (numbers.isEmpty() ? -1 : numbers.get(numbers.size() - 1)) + " ");
            }
        }
        System.out.println(line.toString().trim());
        Runtime.getRuntime().halt(0);
    }

    static boolean allSaw(int last) {
        synchronized (seen) {
            return seen.values().stream().allMatch(numbers -> !numbers.isEmpty() && numbers.get(numbers.size() - 1) == last);
        }
    }

    static Consumer<MessageExt> noting(String name) {
        List<Integer> numbers = new ArrayList<>();
        synchronized (seen) { seen.put(name, numbers); }
        return message -> {
            byte[] body = message.getBody();
            String text = body == null ? "" : new String(body, StandardCharsets.UTF_8);
            if (text.startsWith("good ")) synchronized (seen) { numbers.add(Integer.parseInt(text.substring(5))); }
        };
    }

    static DefaultMQPushConsumer push(String namesrv, String topic, String name, int batch, boolean orderly) throws Exception {
        Consumer<MessageExt> note = noting(name);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(prefix + "_" + name);
        consumer.setInstanceName(name);
        consumer.getDefaultMQPushConsumerImpl().setPullTimeDelayMillsWhenException(100);
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(batch);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(note);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(note);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        return consumer;
    }

    static void pull(DefaultMQPullConsumer consumer, String topic, int queueId, int batch, Consumer<MessageExt> note) {
        try {
            MessageQueue queue = null;
            for (MessageQueue each : consumer.fetchSubscribeMessageQueues(topic)) if (each.getQueueId() == queueId) queue = each;
            long offset = 0;
            while (true) {
                PullResult result = consumer.pull(queue, "*", offset, batch);
                if (result.getPullStatus() == PullStatus.FOUND && result.getMsgFoundList() != null) result.getMsgFoundList().forEach(note);
                if (result.getPullStatus() == PullStatus.NO_NEW_MSG) Thread.sleep(20);
                offset = result.getNextBeginOffset();
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
