import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** A member of a group that says when it has partitions, and polls without committing until it is killed. */
final class GroupMember implements Scenario {
    static final String NAME = "group_member";

    static final Map<String, String> SETTINGS = Map.of(
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false",
            // The least that Kafka allows.
            "session.timeout.ms", "6000",
            "heartbeat.interval.ms", "500");

    @Override
    public void run(Clients clients, Checks checks, String[] arguments) throws Exception {
        haltWithParent();
        try (KafkaConsumer<String, String> consumer = clients.consumer(Member.settings(arguments[1]))) {
            consumer.subscribe(List.of(arguments[0]));
            Checks.await("an assignment", () -> {
                consumer.poll(Clients.POLL);
                return !consumer.assignment().isEmpty();
            });
            System.out.println("assigned " + consumer.assignment().size());
            while (true) {
                consumer.poll(Clients.POLL);
            }
        }
    }

    /** Whoever started this holds its standard input. */
    private static void haltWithParent() {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException closed) {
                // As good as its end.
            }
            Runtime.getRuntime().halt(3);
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
