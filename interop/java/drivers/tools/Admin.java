import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs commands of mqadmin in one virtual machine: `Admin clusterList -n a:1 , topicList -n a:1`. */
public class Admin {
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
        System.out.println("== " + words.get(0));
        MQAdminStartup.main0(words.toArray(new String[0]), null);
    }
}
