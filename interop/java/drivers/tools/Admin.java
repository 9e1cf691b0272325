import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one virtual machine: `Admin clusterList -n a:1 , topicList -n a:1`. A command that got no
 * answer in its three seconds is run again: a virtual machine that has just begun is slow. A command that never ends by
 * itself is ended after a while. `help` is the list of commands.
 */
public class Admin {
    private static final int TRIES = 4;
    private static final Set<String> ENDLESS = Set.of("clusterRT", "startMonitoring");
    private static final long ENDLESS_MS = 4_000;
    private static final long OTHERS_MS = 60_000;

    public static void main(String[] args) throws InterruptedException {
        Thread hurry = new Thread(Admin::hurry, "hurry");
        hurry.setDaemon(true);
        hurry.start();
        List<String> words = new ArrayList<>();
        for (String word : args) {
            if (word.equals(",")) {
                run(words);
                words.clear();
            } else {
                words.add(word);
            }
        }
        run(words);
        System.exit(0);
    }

    /** A command that is done waits for a thread of its own, which looks for events every three seconds: wake it. */
    private static void hurry() {
        try {
            while (true) {
                Thread.sleep(50);
                Map<Thread, StackTraceElement[]> stacks = Thread.getAllStackTraces();
                boolean isDone = stacks.entrySet().stream()
                    .filter(each -> each.getKey().getName().startsWith("mqadmin "))
                    .flatMap(each -> Arrays.stream(each.getValue()))
                    .anyMatch(call -> call.getMethodName().equals("shutdown"));
                for (Thread thread : stacks.keySet()) {
                    if (isDone && thread.getName().startsWith("NettyEventExecutor")) {
                        thread.interrupt();
                    }
                }
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void run(List<String> words) throws InterruptedException {
        String text = "";
        for (int left = TRIES; left > 0; left--) {
            text = said(words);
            if (!text.contains("RemotingTimeoutException") && !text.contains("RemotingConnectException")) {
                break;
            }
        }
        System.out.println("== " + words.get(0));
        System.out.print(text);
        System.out.println();
    }

    private static String said(List<String> words) throws InterruptedException {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream kept = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(kept, true);
        System.setOut(both);
        System.setErr(both);
        try {
            String name = words.get(0);
            String[] line = name.equals("help") ? new String[0] : words.toArray(new String[0]);
            Thread command = new Thread(() -> MQAdminStartup.main0(line, null), "mqadmin " + name);
            command.setDaemon(true);
            command.start();
            command.join(ENDLESS.contains(name) ? ENDLESS_MS : OTHERS_MS);
            if (command.isAlive()) {
                String before = kept.toString();
                command.interrupt();
                command.join(ENDLESS_MS);
                return before;
            }
        } finally {
            both.flush();
            System.setOut(out);
            System.setErr(err);
        }
        return kept.toString();
    }
}
