import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs one scenario of Kafka's Java client against a server: `ClientCheck --bootstrap host:port scenario`.
 *
 * <p>Prints one JSON line for each check. Ends with 0 when all passed, with 1 at the first that failed, and
 * with 2 when it was called wrongly. Compiles against kafka-clients 3.9 and 4.x alike.
 */
public final class ClientCheck {
    private static final Map<String, Scenario> SCENARIOS = new TreeMap<>(Map.of(
            "produce", new ProduceScenario(),
            "consume_assign", new AssignScenario(),
            "consume_group", new GroupScenario(),
            "admin", new AdminScenario(),
            // Not a check by itself: the member that consume_group starts in a process of its own, and kills.
            GroupMember.NAME, new GroupMember()));

    private ClientCheck() {}

    public static void main(String[] arguments) {
        if (arguments.length < 3 || !arguments[0].equals("--bootstrap") || !SCENARIOS.containsKey(arguments[2])) {
            System.err.println("usage: ClientCheck --bootstrap host:port " + String.join("|", SCENARIOS.keySet()));
            System.exit(2);
        }
        Checks checks = new Checks(System.out);
        String[] rest = Arrays.copyOfRange(arguments, 3, arguments.length);
        try {
            SCENARIOS.get(arguments[2]).run(new Clients(arguments[1]), checks, rest);
        } catch (Throwable failure) {
            checks.reportFailure(failure);
            failure.printStackTrace();
            System.exit(1);
        }
        // A client that was left open must not keep the process alive.
        System.exit(0);
    }
}
