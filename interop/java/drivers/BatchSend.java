import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends batches, or single messages as batches of one, from several threads until `count` messages were asked for (0 = until killed), each thread at most
 * `perSecond` messages a second (0 = as fast as it goes). Every half second one
 * line "ms=T sent=N failed=M nanos=L": clock, messages acknowledged so far, messages refused, summed time of the calls.
 */
public class BatchSend {
    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1];
        int threads = Integer.parseInt(args[2]), perBatch = Integer.parseInt(args[3]), bodyBytes = Integer.parseInt(args[4]);
        long count = Long.parseLong(args[5]);
        long nanosEach = args.length > 6 && !args[6].equals("0") ? 1_000_000_000L * perBatch / Long.parseLong(args[6]) : 0;
        DefaultMQProducer producer = new DefaultMQProducer("bench_batch", Signed.hook());
        producer.setNamesrvAddr(namesrv);
        producer.setVipChannelEnabled(false);
        producer.setSendMsgTimeout(10000);
        producer.start();
        AtomicLong begun = new AtomicLong();
        LongAdder sent = new LongAdder(), failed = new LongAdder(), nanos = new LongAdder();
        byte[] body = new byte[bodyBytes];
        for (int i = 0; i < bodyBytes; i++) body[i] = (byte) ('a' + i % 26);
        List<Thread> senders = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread sender = new Thread(() -> {
                long due = System.nanoTime();
                while (count == 0 || begun.getAndAdd(perBatch) < count) {
                    // New messages each time: the client writes an id into each.
                    List<Message> batch = new ArrayList<>(perBatch);
                    for (int n = 0; n < perBatch; n++) batch.add(new Message(topic, body));
                    long start = System.nanoTime();
                    boolean stored = false;
                    try {
                        stored = (perBatch == 1 ? producer.send(batch.get(0)) : producer.send(batch)).getSendStatus() == SendStatus.SEND_OK;
                    } catch (Exception error) {
                        try { Thread.sleep(10); } catch (InterruptedException stop) { return; }
                    }
                    nanos.add(System.nanoTime() - start);
                    due += nanosEach;
                    if (nanosEach > 0) LockSupport.parkNanos(due - System.nanoTime());
                    (stored ? sent : failed).add(perBatch);
                }
            }, "batch-send-" + i);
            sender.start();
            senders.add(sender);
        }
        Thread printer = new Thread(() -> {
            while (true) {
                print(sent, failed, nanos);
                try { Thread.sleep(500); } catch (InterruptedException stop) { return; }
            }
        });
        printer.setDaemon(true);
        printer.start();
        for (Thread sender : senders) sender.join();
        print(sent, failed, nanos);
        producer.shutdown();
        System.exit(0);
    }

    static synchronized void print(LongAdder sent, LongAdder failed, LongAdder nanos) {
        System.out.println("ms=" + System.currentTimeMillis() + " sent=" + sent + " failed=" + failed + " nanos=" + nanos);
    }
}
