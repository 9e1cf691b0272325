import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * `NAMESRV TOPIC COUNT MILLIS`: sends so many messages for a time, and takes back those with an odd number, each fourth
 * twice. Bodies are "n due", as those of Later. The last message is due soon and taken back too late.
 * Last line: "sent=N recalled=M wrong=W late=CODE"; wrong: another id was told. Clients before 5.3.2 have no recall.
 */
public class Recall {
    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        int count = Integer.parseInt(args[2]), millis = Integer.parseInt(args[3]), recalled = 0, wrong = 0, late = 0;
        DefaultMQProducer producer = new DefaultMQProducer("interop_recall");
        producer.setNamesrvAddr(args[0]);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.start();
        List<SendResult> results = new ArrayList<>();
        for (int n = 0; n <= count; n++) {
            long due = System.currentTimeMillis() + (n < count ? millis : 1500);
            Message message = new Message(args[1], (n + " " + due).getBytes(StandardCharsets.UTF_8));
            Message.class.getMethod("setDeliverTimeMs", long.class).invoke(message, due);
            results.add(producer.send(message));
        }
        for (int n = 1; n < count; n += 2) {
            for (int times = n % 4 == 1 ? 2 : 1; times > 0; times--) {
                if (!recall(producer, args[1], results.get(n)).equals(results.get(n).getMsgId())) wrong++;
            }
            recalled++;
        }
        Thread.sleep(2600);
        try {
            recall(producer, args[1], results.get(count));
        } catch (MQBrokerException error) {
            late = error.getResponseCode();
        }
        producer.shutdown();
        System.out.println("sent=" + results.size() + " recalled=" + recalled + " wrong=" + wrong + " late=" + late);
        System.exit(0);
    }

    static String recall(DefaultMQProducer producer, String topic, SendResult result) throws Exception {
        Object handle = SendResult.class.getMethod("getRecallHandle").invoke(result);
        Method recall = DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class);
        try {
            return (String) recall.invoke(producer, topic, handle);
        } catch (InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }
}
