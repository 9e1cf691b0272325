import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Request and reply: an answer is the message with "re: " before it.
 * `ask NAMESRV TOPIC COUNT MILLIS` asks, one after the other: "right=N wrong=M none=K".
 * `answer NAMESRV TOPIC COUNT SECONDS` answers so many messages, or until the time is over: "answered=N failed=M".
 */
public class Request {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        DefaultMQProducer producer = new DefaultMQProducer("asks_" + args[0] + "_" + args[2]);
        producer.setNamesrvAddr(args[1]);
        producer.setVipChannelEnabled(false);
        producer.start();
        int count = Integer.parseInt(args[3]), limit = Integer.parseInt(args[4]);
        if (args[0].equals("ask")) ask(producer, args[2], count, limit);
        else answer(producer, args[1], args[2], count, limit);
        producer.shutdown();
        System.exit(0);
    }

    static void ask(DefaultMQProducer producer, String topic, int count, int millis) throws Exception {
        int right = 0, wrong = 0, none = 0;
        for (int n = 0; n < count; n++) {
            try {
                Message reply = producer.request(new Message(topic, bytes("question " + n)), millis);
                if (text(reply.getBody()).equals("re: question " + n)) right++; else wrong++;
            } catch (Exception error) {
                System.err.println("question " + n + ": " + error);
                none++;
            }
        }
        System.out.println("right=" + right + " wrong=" + wrong + " none=" + none);
    }

    static void answer(DefaultMQProducer producer, String namesrv, String topic, int count, int seconds) throws Exception {
        AtomicInteger answered = new AtomicInteger(), failed = new AtomicInteger();
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("answers_" + topic);
        consumer.setNamesrvAddr(namesrv);
        consumer.setVipChannelEnabled(false);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    producer.send(MessageUtil.createReplyMessage(message, bytes("re: " + text(message.getBody()))), 5000);
                    answered.incrementAndGet();
                } catch (Exception error) {
                    System.err.println("answer to " + text(message.getBody()) + ": " + error);
                    failed.incrementAndGet();
                }
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.err.println("ready");
        left.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
        System.out.println("answered=" + answered + " failed=" + failed);
    }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static String text(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }
}
