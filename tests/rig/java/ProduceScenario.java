import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;

/** What is produced comes back as it was: every codec, every acks, headers, nulls, order, size. */
final class ProduceScenario implements Scenario {
    private static final int RECORDS = 60;
    private static final long FIRST_TIMESTAMP_MS = Clients.AN_HOUR_AGO_MS;
    // 1 MiB and the overhead of a batch: Kafka's default of max.message.bytes.
    private static final int MAX_MESSAGE_BYTES = 1_048_588;

    @Override
    public void run(Clients clients, Checks checks, String[] arguments) throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            checks.check("codec " + codec, () -> roundTrip(clients, Map.of("compression.type", codec), true));
        }
        // Idempotence is the default, and needs acks=all.
        checks.check("acks 0", () -> roundTrip(clients, Map.of("acks", "0", "enable.idempotence", "false"), false));
        checks.check("acks 1", () -> roundTrip(clients, Map.of("acks", "1", "enable.idempotence", "false"), true));
        checks.check("acks all", () -> roundTrip(clients, Map.of("acks", "all"), true));
        checks.check("not idempotent", () -> roundTrip(clients, Map.of("enable.idempotence", "false"), true));
        checks.check("idempotent order of many small batches", () -> keepsOrder(clients));
        checks.check("keys choose their partition", () -> spreads(clients));
        checks.check("a topic that is created by its first record", () -> createsTopic(clients));
        checks.check("large record", () -> storesLarge(clients));
        checks.check("too large a record", () -> refusesTooLarge(clients));
    }

    private void roundTrip(Clients clients, Map<String, String> settings, boolean acknowledged) throws Exception {
        String topic = clients.newTopic("produce", 1);
        try (KafkaProducer<String, String> producer = clients.producer(settings)) {
            List<RecordMetadata> sent = Clients.sendAll(producer, mixedRecords(topic));
            for (int number = 0; number < RECORDS; number++) {
                long expected = acknowledged ? number : -1;
                Checks.expectEquals("acknowledged offset", expected, sent.get(number).offset());
            }
        }
        List<ConsumerRecord<String, String>> read = clients.read(new TopicPartition(topic, 0), RECORDS);
        Checks.expectEquals("records", RECORDS, read.size());
        for (int number = 0; number < RECORDS; number++) {
            expectSame(number, mixedRecord(topic, number), read.get(number));
        }
    }

    private static List<ProducerRecord<String, String>> mixedRecords(String topic) {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int number = 0; number < RECORDS; number++) {
            records.add(mixedRecord(topic, number));
        }
        return records;
    }

    /** Null and empty keys and values, headers that repeat, and headers that are null or empty. */
    private static ProducerRecord<String, String> mixedRecord(String topic, int number) {
        String key = number % 3 == 0 ? null : number % 4 == 0 ? "" : "key-" + number;
        String value = number % 5 == 0 ? null : "value ".repeat(number % 7) + (number % 7 == 0 ? "" : number);
        ProducerRecord<String, String> record =
                new ProducerRecord<>(topic, 0, FIRST_TIMESTAMP_MS + number, key, value);
        for (int header = 0; header < number % 4; header++) {
            record.headers().add("same", ("header " + header).getBytes(StandardCharsets.UTF_8));
        }
        if (number % 6 == 0) {
            record.headers().add("null", null).add("empty", new byte[0]).add("größe", new byte[] {0, -1});
        }
        return record;
    }

    private static void expectSame(
            int number, ProducerRecord<String, String> sent, ConsumerRecord<String, String> read) {
        Checks.expectEquals("offset", (long) number, read.offset());
        Checks.expectEquals("key at " + number, sent.key(), read.key());
        Checks.expectEquals("value at " + number, sent.value(), read.value());
        Checks.expectEquals("timestamp at " + number, sent.timestamp(), read.timestamp());
        Header[] expected = sent.headers().toArray();
        Header[] found = read.headers().toArray();
        Checks.expectEquals("headers at " + number, expected.length, found.length);
        for (int place = 0; place < expected.length; place++) {
            Checks.expectEquals("name of a header at " + number, expected[place].key(), found[place].key());
            boolean same = Arrays.equals(expected[place].value(), found[place].value());
            Checks.expect(same, "a header at " + number + " has another value");
        }
    }

    private void keepsOrder(Clients clients) throws Exception {
        int count = 2_000;
        String topic = clients.newTopic("order", 1);
        clients.fill(topic, 0, count, Map.of("batch.size", "200", "linger.ms", "0"));
        List<ConsumerRecord<String, String>> read = clients.read(new TopicPartition(topic, 0), count);
        Checks.expectEquals("records", count, read.size());
        for (int number = 0; number < count; number++) {
            Checks.expectEquals("value at " + number, Integer.toString(number), read.get(number).value());
        }
    }

    private void spreads(Clients clients) throws Exception {
        String topic = clients.newTopic("spread", 4);
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int number = 0; number < 100; number++) {
            records.add(new ProducerRecord<>(topic, "key-" + number % 20, Integer.toString(number)));
        }
        List<RecordMetadata> sent;
        try (KafkaProducer<String, String> producer = clients.producer(Map.of())) {
            sent = Clients.sendAll(producer, records);
        }
        for (int number = 20; number < 100; number++) {
            int expected = sent.get(number - 20).partition();
            Checks.expectEquals("partition of a key", expected, sent.get(number).partition());
        }
        long used = sent.stream().mapToInt(RecordMetadata::partition).distinct().count();
        Checks.expectEquals("partitions in use", 4L, used);
    }

    private void createsTopic(Clients clients) throws Exception {
        TopicPartition partition = new TopicPartition(Clients.unique("auto"), 0);
        clients.fill(partition.topic(), partition.partition(), 1, Map.of());
        Checks.expectEquals("value", "0", clients.read(partition, 1).get(0).value());
    }

    private void storesLarge(Clients clients) throws Exception {
        String topic = clients.newTopic("large", 1);
        String value = "x".repeat(1_000_000);
        try (KafkaProducer<String, String> producer = clients.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, value)).get();
        }
        Checks.expectEquals("value", value, clients.read(new TopicPartition(topic, 0), 1).get(0).value());
    }

    private void refusesTooLarge(Clients clients) throws Exception {
        String topic = clients.newTopic("too-large", 1);
        String value = "x".repeat(MAX_MESSAGE_BYTES);
        // The client would refuse it before the server can.
        Map<String, String> settings = Map.of("max.request.size", "4000000");
        try (KafkaProducer<String, String> producer = clients.producer(settings)) {
            Checks.expectError("a record above max.message.bytes", RecordTooLargeException.class, () ->
                    producer.send(new ProducerRecord<>(topic, value)).get());
            long offset = producer.send(new ProducerRecord<>(topic, "small")).get().offset();
            Checks.expectEquals("offset of the next record", 0L, offset);
        }
    }
}
