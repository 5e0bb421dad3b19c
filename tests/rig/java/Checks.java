import java.io.PrintStream;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;

/** Reports what was checked, one JSON line each, and has the means to check it. */
final class Checks {
    /** What a scenario waits for takes this long at most. */
    static final long DEADLINE_MS = 30_000;

    private final PrintStream out;
    private String current = "start";

    Checks(PrintStream out) {
        this.out = out;
    }

    interface Body {
        void run() throws Exception;
    }

    void check(String name, Body body) throws Exception {
        current = name;
        long started = System.nanoTime();
        body.run();
        long elapsedMs = (System.nanoTime() - started) / 1_000_000;
        out.println("{\"check\": " + quoted(name) + ", \"ok\": true, \"elapsed_ms\": " + elapsedMs + "}");
    }

    void reportFailure(Throwable failure) {
        String message = quoted(failure.toString());
        out.println("{\"check\": " + quoted(current) + ", \"ok\": false, \"message\": " + message + "}");
    }

    static void expect(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    static void expectEquals(String what, Object expected, Object actual) {
        expect(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
    }

    /** The call ends with this error, given as such or as the cause of what a future throws. */
    static void expectError(String what, Class<? extends Throwable> expected, Body body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            expect(expected.isInstance(cause), what + ": expected " + expected.getName() + ", got " + cause);
            return;
        }
        throw new AssertionError(what + ": expected " + expected.getName() + ", got no error");
    }

    /** Asks until it is true. The condition itself waits for the server, so that this does not spin. */
    static void await(String what, BooleanSupplier condition) {
        long deadline = System.nanoTime() + DEADLINE_MS * 1_000_000;
        while (!condition.getAsBoolean()) {
            expect(System.nanoTime() < deadline, "not within " + DEADLINE_MS + " ms: " + what);
        }
    }

    interface Question<T> {
        T ask() throws Exception;
    }

    /** The answer of a question within a condition, which may not throw what the client throws. */
    static <T> T now(Question<T> question) {
        try {
            return question.ask();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                quoted.append('\\').append(letter);
            } else if (letter < ' ' || letter > '~') {
                quoted.append(String.format("\\u%04x", (int) letter));
            } else {
                quoted.append(letter);
            }
        }
        return quoted.append('"').toString();
    }
}
