import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Clients of one server, with the defaults of the Java client where a scenario does not say otherwise. */
final class Clients {
    static final Duration POLL = Duration.ofMillis(200);
    /** For a consumer that only looks: a close, and a seek, wait for the fetch that is under way. */
    static final Map<String, String> BRIEF = Map.of("fetch.max.wait.ms", "50");

    /** Not now, and not so old that retention would delete the record while a scenario reads it. */
    static final long AN_HOUR_AGO_MS = System.currentTimeMillis() - 3_600_000;

    final String bootstrap;

    Clients(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** A name that no other run has. */
    static String unique(String prefix) {
        return prefix + "-" + UUID.randomUUID();
    }

    Admin admin() {
        return Admin.create(properties(Map.of()));
    }

    KafkaProducer<String, String> producer(Map<String, String> settings) {
        return new KafkaProducer<>(properties(settings), new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(Map<String, String> settings) {
        return new KafkaConsumer<>(properties(settings), new StringDeserializer(), new StringDeserializer());
    }

    /** The name of a new topic with these partitions. */
    String newTopic(String prefix, int partitions) throws Exception {
        String topic = unique(prefix);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
            awaitListed(admin, topic, true);
        }
        return topic;
    }

    /** Kafka answers what creates or deletes a topic before its broker has heard of it. */
    static void awaitListed(Admin admin, String topic, boolean listed) {
        Checks.await(topic + (listed ? " in" : " not in") + " the list of topics", () ->
                Checks.now(() -> admin.listTopics().names().get()).contains(topic) == listed);
    }

    /** Sends all, and returns when all are acknowledged. */
    static List<RecordMetadata> sendAll(
            KafkaProducer<String, String> producer, Iterable<ProducerRecord<String, String>> records) throws Exception {
        List<Future<RecordMetadata>> pending = new ArrayList<>();
        for (ProducerRecord<String, String> record : records) {
            pending.add(producer.send(record));
        }
        producer.flush();
        List<RecordMetadata> sent = new ArrayList<>();
        for (Future<RecordMetadata> answer : pending) {
            sent.add(answer.get());
        }
        return sent;
    }

    /** Fills a partition with the values "0", "1", ... and returns when they are acknowledged. */
    void fill(String topic, int partition, int count, Map<String, String> settings) throws Exception {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            records.add(new ProducerRecord<>(topic, partition, "key-" + number, Integer.toString(number)));
        }
        try (KafkaProducer<String, String> producer = producer(settings)) {
            sendAll(producer, records);
        }
    }

    /** Polls from where the consumer stands until it has this many records. */
    static List<ConsumerRecord<String, String>> take(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> taken = new ArrayList<>();
        Checks.await(count + " records", () -> {
            consumer.poll(POLL).forEach(taken::add);
            return taken.size() >= count;
        });
        return taken;
    }

    /** A partition from its beginning. */
    List<ConsumerRecord<String, String>> read(TopicPartition partition, int count) {
        try (KafkaConsumer<String, String> consumer = consumer(BRIEF)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            return take(consumer, count);
        }
    }

    private Properties properties(Map<String, String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(settings);
        return properties;
    }
}
