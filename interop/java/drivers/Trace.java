import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.MQAdmin;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageType;

/**
 * Clients that trace. Bodies are "n", keys "kn", the tag is "A".
 * "produce namesrv topic group count": last line "sent=N".
 * "consume namesrv topic group count seconds": the body "1" fails once; last line "distinct=D calls=C".
 * "encode": the text of one record of each kind, its bytes behind "hex", one a line; last line "records=N".
 */
public class Trace {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        switch (args[0]) {
            case "produce": produce(args); break;
            case "consume": consume(args); break;
            default: encode();
        }
        System.exit(0);
    }

    static void produce(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args[3], true, null);
        producer.setNamesrvAddr(args[1]);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.start();
        int sent = 0;
        String last = "";
        for (int n = 0; n < Integer.parseInt(args[4]); n++, sent++) {
            last = producer.send(new Message(args[2], "A", "k" + n, Integer.toString(n).getBytes(StandardCharsets.UTF_8))).getMsgId();
        }
        awaitTrace(producer, last, "Pub", 1);
        producer.shutdown();
        System.out.println("sent=" + sent);
    }

    static void consume(String[] args) throws Exception {
        Set<String> done = ConcurrentHashMap.newKeySet(), seen = ConcurrentHashMap.newKeySet();
        List<String> calls = new ArrayList<>();
        AtomicReference<String> failed = new AtomicReference<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[3], true, null);
        consumer.setNamesrvAddr(args[1]);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                synchronized (calls) { calls.add(body); }
                if (body.equals("1")) failed.set(message.getMsgId());
                if (seen.add(body) && body.equals("1")) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                done.add(body);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = System.currentTimeMillis() + Integer.parseInt(args[5]) * 1000L;
        while (done.size() < Integer.parseInt(args[4]) && System.currentTimeMillis() < end) Thread.sleep(20);
        awaitTrace(consumer, failed.get(), "SubAfter", 2);
        consumer.shutdown();
        System.out.println("distinct=" + done.size() + " calls=" + calls.size());
    }

    /** What waits when a client is shut down may be lost. */
    static void awaitTrace(MQAdmin client, String id, String kind, int times) throws Exception {
        long end = System.currentTimeMillis() + 60_000;
        for (int found = 0; found < times && System.currentTimeMillis() < end; Thread.sleep(50)) {
            found = 0;
            try {
                for (MessageExt trace : client.queryMessage("RMQ_SYS_TRACE_TOPIC", id, 32, 0, Long.MAX_VALUE).getMessageList()) {
                    for (String record : new String(trace.getBody(), StandardCharsets.UTF_8).split("\u0002")) {
                        if (record.startsWith(kind + "\u0001") && record.contains("\u0001" + id + "\u0001")) found++;
                    }
                }
            } catch (MQClientException nothingYet) {
                continue;
            }
        }
    }

    static void encode() {
        int records = 0;
        for (String name : new String[] {"Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall"}) {
            TraceType type;
            try {
                type = TraceType.valueOf(name);
            } catch (IllegalArgumentException older) {
                continue;
            }
            for (boolean full : new boolean[] {true, false}) {
                StringBuilder hex = new StringBuilder();
                for (byte each : TraceDataEncoder.encoderFromContextBean(context(type, full)).getTransData().getBytes(StandardCharsets.UTF_8)) {
                    hex.append(String.format("%02x", each));
                }
                System.out.println("hex " + hex);
                records++;
            }
        }
        System.out.println("records=" + records);
    }

    static TraceContext context(TraceType type, boolean full) {
        TraceBean bean = new TraceBean();
        bean.setTopic("Orders");
        bean.setMsgId("0A000001000018B4AAC27D1B1A2B0001");
        bean.setTags(full ? "t\u00e9" : null);
        bean.setKeys(full ? "k1 k2" : null);
        bean.setStoreHost("10.0.0.9:10911");
        bean.setBodyLength(17);
        bean.setMsgType(full ? MessageType.Delay_Msg : MessageType.Normal_Msg);
        bean.setOffsetMsgId(full ? "0A00000900002A9F000000000000CAFE" : null);
        bean.setRetryTimes(full ? 3 : 0);
        bean.setTransactionId("0A000001000018B4AAC27D1B1A2B0001");
        bean.setTransactionState(full ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE);
        bean.setFromTransactionCheck(full);
        List<TraceBean> beans = new ArrayList<>();
        beans.add(bean);
        TraceContext context = new TraceContext();
        context.setTraceType(type);
        context.setTimeStamp(1780000000123L);
        context.setRegionId("DefaultRegion");
        context.setGroupName("sellers");
        context.setCostTime(42);
        context.setSuccess(full);
        context.setRequestId("0A000001000018B4AAC27D1B1A2B0007");
        context.setContextCode(full ? 4 : 0);
        context.setAccessChannel(AccessChannel.LOCAL);
        context.setTraceBeans(beans);
        return context;
    }
}
