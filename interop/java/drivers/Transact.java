import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends numbered messages in transactions: by turns committed, rolled back, and unknown until the broker asks; the first
 * answer to a check is unknown again, the second commits (number divisible by two) or rolls back.
 * Ends when every unknown one is settled, or as many as the last argument says. Last line: "sent=N failed=M settled=S wrong=W".
 */
public class Transact {
    static final AtomicInteger wrong = new AtomicInteger();
    static final Set<Integer> asked = ConcurrentHashMap.newKeySet(), settled = ConcurrentHashMap.newKeySet();

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { error.printStackTrace(); Runtime.getRuntime().halt(1); });
        String namesrv = args[0], topic = args[1], group = args[2];
        int count = Integer.parseInt(args[3]), seconds = Integer.parseInt(args[4]);
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object number) {
                switch ((Integer) number % 3) {
                    case 0: return LocalTransactionState.COMMIT_MESSAGE;
                    case 1: return LocalTransactionState.ROLLBACK_MESSAGE;
                    default: return LocalTransactionState.UNKNOW;
                }
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int number = Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8).trim());
                if (number % 3 != 2 || !topic.equals(message.getTopic())) wrong.incrementAndGet();
                if (asked.add(number)) return LocalTransactionState.UNKNOW;
                settled.add(number);
                return number % 2 == 0 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        int sent = 0, failed = 0, unknown = 0;
        for (int n = 0; n < count; n++) {
            Message message = new Message(topic, "A", "k" + n, Integer.toString(n).getBytes(StandardCharsets.UTF_8));
            if (producer.sendMessageInTransaction(message, n).getSendStatus() == SendStatus.SEND_OK) sent++; else failed++;
            if (n % 3 == 2) unknown++;
        }
        if (args.length > 5) unknown = Integer.parseInt(args[5]);
        for (long end = System.currentTimeMillis() + seconds * 1000L; settled.size() < unknown && System.currentTimeMillis() < end; )
            Thread.sleep(20);
        producer.shutdown();
        System.out.println("sent=" + sent + " failed=" + failed + " settled=" + settled.size() + " wrong=" + wrong);
        System.exit(0);
    }
}
