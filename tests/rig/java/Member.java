import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** A consumer in a group, with what it has read and how often it had to give partitions back. */
final class Member implements AutoCloseable {
    final KafkaConsumer<String, String> consumer;
    final List<String> values = new ArrayList<>();
    int revocations;

    Member(Clients clients, String topic, Map<String, String> settings) {
        consumer = clients.consumer(settings);
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                // The first join of a member gives back nothing.
                revocations += partitions.isEmpty() ? 0 : 1;
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
        });
    }

    static Map<String, String> settings(String group) {
        Map<String, String> settings = new HashMap<>(GroupMember.SETTINGS);
        settings.put("group.id", group);
        return settings;
    }

    static Map<String, String> staticSettings(String group, String instance) {
        Map<String, String> settings = settings(group);
        settings.put("group.instance.id", instance);
        return settings;
    }

    void poll() {
        consumer.poll(Clients.POLL).forEach(record -> values.add(record.value()));
    }

    Set<TopicPartition> assignment() {
        return consumer.assignment();
    }

    /** Polls, each member in turn, until this is true. */
    static void await(String what, BooleanSupplier condition, Member... members) {
        Checks.await(what, () -> {
            for (Member member : members) {
                member.poll();
            }
            return condition.getAsBoolean();
        });
    }

    @Override
    public void close() {
        consumer.close();
    }
}
