import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin in one virtual machine: `Admin clusterList -n a:1 , topicList -n a:1`. A command that got no
 * answer in its three seconds is run again: a virtual machine that has just begun is slow.
 */
public class Admin {
    private static final int TRIES = 4;

    public static void main(String[] args) {
        java.util.List<String> words = new java.util.ArrayList<>();
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

    private static void run(java.util.List<String> words) {
        String text = "";
        for (int left = TRIES; left > 0; left--) {
            text = said(words);
            if (!text.contains("RemotingTimeoutException") && !text.contains("RemotingConnectException")) {
                break;
            }
        }
        System.out.println("== " + words.get(0));
        System.out.print(text);
    }

    private static String said(java.util.List<String> words) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream kept = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(kept, true);
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main0(words.toArray(new String[0]), null);
        } finally {
            both.flush();
            System.setOut(out);
            System.setErr(err);
        }
        return kept.toString();
    }
}
