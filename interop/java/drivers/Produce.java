import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/** Sends numbered messages: body "n" padded, key "kn", tags by turns. Last line: "sent=N failed=M". */
public class Produce {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        String namesrv = args[0], topic = args[1], mode = args[2];
        int count = Integer.parseInt(args[3]), bodyBytes = Integer.parseInt(args[4]);
        String[] tags = args[5].split(",");
        DefaultMQProducer producer = new DefaultMQProducer("interop_producer", Signed.hook());
        producer.setNamesrvAddr(namesrv);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.start();
        AtomicInteger sent = new AtomicInteger(), failed = new AtomicInteger();
        if (mode.equals("batch")) {
            for (int i = 0; i < count; i += 50) {
                List<Message> batch = new ArrayList<>();
                for (int n = i; n < Math.min(count, i + 50); n++) batch.add(message(topic, tags, n, bodyBytes));
                if (producer.send(batch).getSendStatus() == SendStatus.SEND_OK) sent.addAndGet(batch.size());
                else failed.addAndGet(batch.size());
            }
        } else if (mode.equals("async")) {
            CountDownLatch done = new CountDownLatch(count);
            for (int n = 0; n < count; n++) {
                producer.send(message(topic, tags, n, bodyBytes), new SendCallback() {
                    public void onSuccess(SendResult result) { sent.incrementAndGet(); done.countDown(); }
                    public void onException(Throwable error) { failed.incrementAndGet(); done.countDown(); }
                });
                if (n % 500 == 499) while (done.getCount() > count - n + 400) Thread.sleep(1);
            }
            done.await(60, TimeUnit.SECONDS);
        } else {
            for (int n = 0; n < count; n++) {
                Message message = message(topic, tags, n, bodyBytes);
                if (mode.equals("oneway")) { producer.sendOneway(message); sent.incrementAndGet(); continue; }
                SendResult result = mode.equals("orderly")
                    ? producer.send(message, (queues, m, key) -> queues.get(((Integer) key) % queues.size()), n % 8)
                    : producer.send(message);
                if (result.getSendStatus() == SendStatus.SEND_OK) sent.incrementAndGet(); else failed.incrementAndGet();
            }
        }
        producer.shutdown();
        System.out.println("sent=" + sent + " failed=" + failed);
        System.exit(0);
    }

    static Message message(String topic, String[] tags, int n, int bodyBytes) {
        StringBuilder body = new StringBuilder().append(n);
        while (body.length() < bodyBytes) body.append(' ');
        Message message = new Message(topic, tags[n % tags.length], "k" + n, body.toString().getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("number", Integer.toString(n));
        return message;
    }
}
