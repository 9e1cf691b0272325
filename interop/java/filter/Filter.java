import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What Apache's broker makes of SQL92 expressions, by its own parser and evaluator. Reads lines of base64 words:
 * "M name value name value ..." is a message, "E expression" is decided on all messages so far and answered by one line:
 * "refused", or a letter a message: T, F, N (null), X (the evaluation throws; the broker then does not match).
 */
public class Filter {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        List<Map<String, String>> messages = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("M")) {
                Map<String, String> properties = new HashMap<>();
                for (int i = 1; i + 1 < words.length; i += 2) properties.put(text(words[i]), text(words[i + 1]));
                messages.add(properties);
            } else {
                out.println(decide(words.length > 1 ? text(words[1]) : "", messages));
            }
        }
        out.flush();
    }

    static String text(String word) {
        return new String(Base64.getDecoder().decode(word.substring(1)), StandardCharsets.UTF_8);
    }

    static String decide(String sql, List<Map<String, String>> messages) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(sql);
        } catch (Exception refused) {
            return "refused";
        }
        StringBuilder outcomes = new StringBuilder();
        for (Map<String, String> message : messages) {
            try {
                Object value = expression.evaluate(new MessageEvaluationContext(message));
                outcomes.append(value == null ? 'N' : value.equals(Boolean.TRUE) ? 'T' : value.equals(Boolean.FALSE) ? 'F' : '?');
            } catch (Throwable thrown) {
                outcomes.append('X');
            }
        }
        return outcomes.toString();
    }
}
