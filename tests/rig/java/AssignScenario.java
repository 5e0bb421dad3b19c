import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A consumer that chooses its partitions and where to read in them. */
final class AssignScenario implements Scenario {
    private static final int RECORDS = 100;
    private static final long FIRST_TIMESTAMP_MS = Clients.AN_HOUR_AGO_MS;
    private static final long STEP_MS = 10;

    private Clients clients;
    private TopicPartition filled;
    private TopicPartition empty;

    @Override
    public void run(Clients clients, Checks checks, String[] arguments) throws Exception {
        this.clients = clients;
        String topic = clients.newTopic("assign", 2);
        filled = new TopicPartition(topic, 0);
        empty = new TopicPartition(topic, 1);
        fillWithTimestamps();
        checks.check("partitions of a topic", this::partitions);
        checks.check("beginning and end offsets", this::bounds);
        checks.check("seek", this::seek);
        checks.check("seek to both ends", this::seekToEnds);
        checks.check("offsets for times", this::times);
        checks.check("seek by time", this::seekByTime);
        checks.check("records that arrive while it waits", this::waits);
        checks.check("small fetches", this::smallFetches);
        checks.check("no position and no reset", this::noReset);
    }

    /** Several batches, each with several records, so that most offsets are inside a batch. */
    private void fillWithTimestamps() throws Exception {
        try (KafkaProducer<String, String> producer = clients.producer(Map.of("linger.ms", "1000"))) {
            for (int first = 0; first < RECORDS; first += 25) {
                List<ProducerRecord<String, String>> batch = new ArrayList<>();
                for (int number = first; number < first + 25; number++) {
                    long timestamp = FIRST_TIMESTAMP_MS + number * STEP_MS;
                    batch.add(new ProducerRecord<>(filled.topic(), 0, timestamp, null, Integer.toString(number)));
                }
                Clients.sendAll(producer, batch);
            }
        }
    }

    private KafkaConsumer<String, String> assigned(Map<String, String> settings) {
        KafkaConsumer<String, String> consumer = clients.consumer(settings);
        consumer.assign(List.of(filled, empty));
        return consumer;
    }

    private void partitions() {
        try (KafkaConsumer<String, String> consumer = clients.consumer(Map.of())) {
            Checks.expectEquals("partitions", 2, consumer.partitionsFor(filled.topic()).size());
            Checks.expect(consumer.listTopics().containsKey(filled.topic()), "the topic is not listed");
        }
    }

    private void bounds() {
        try (KafkaConsumer<String, String> consumer = clients.consumer(Map.of())) {
            List<TopicPartition> both = List.of(filled, empty);
            Checks.expectEquals("beginnings", Map.of(filled, 0L, empty, 0L), consumer.beginningOffsets(both));
            Checks.expectEquals("ends", Map.of(filled, (long) RECORDS, empty, 0L), consumer.endOffsets(both));
        }
    }

    private void seek() {
        try (KafkaConsumer<String, String> consumer = assigned(Clients.BRIEF)) {
            for (long offset : new long[] {0, 1, 24, 25, 37, RECORDS - 1, 60}) {
                consumer.seek(filled, offset);
                consumer.seek(empty, 0);
                int left = (int) (RECORDS - offset);
                expectValues((int) offset, left, Clients.take(consumer, left));
                Checks.expectEquals("position", (long) RECORDS, consumer.position(filled));
            }
        }
    }

    private void seekToEnds() {
        try (KafkaConsumer<String, String> consumer = assigned(Map.of())) {
            consumer.seekToEnd(List.of(filled, empty));
            Checks.expectEquals("position at the end", (long) RECORDS, consumer.position(filled));
            consumer.seekToBeginning(List.of(filled));
            Checks.expectEquals("position at the beginning", 0L, consumer.position(filled));
            expectValues(0, RECORDS, Clients.take(consumer, RECORDS));
        }
    }

    private void times() {
        try (KafkaConsumer<String, String> consumer = clients.consumer(Map.of())) {
            expectOffsetAt(consumer, 0L, 0L);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS, 0L);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS + 1, 1L);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS + 37 * STEP_MS, 37L);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS + 37 * STEP_MS - 1, 37L);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS + (RECORDS - 1) * STEP_MS, (long) RECORDS - 1);
            expectOffsetAt(consumer, FIRST_TIMESTAMP_MS + RECORDS * STEP_MS, null);
            Map<TopicPartition, OffsetAndTimestamp> none = new HashMap<>();
            none.put(empty, null);
            Checks.expectEquals("an empty partition", none, consumer.offsetsForTimes(Map.of(empty, 0L)));
        }
    }

    private void expectOffsetAt(KafkaConsumer<String, String> consumer, long timestamp, Long expected) {
        OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(filled, timestamp)).get(filled);
        Checks.expectEquals("offset at " + timestamp, expected, found == null ? null : found.offset());
        if (found != null) {
            long stored = FIRST_TIMESTAMP_MS + expected * STEP_MS;
            Checks.expectEquals("timestamp of the record found", stored, found.timestamp());
        }
    }

    private void seekByTime() {
        try (KafkaConsumer<String, String> consumer = assigned(Map.of())) {
            long timestamp = FIRST_TIMESTAMP_MS + 80 * STEP_MS - 5;
            consumer.seek(empty, 0);
            consumer.seek(filled, consumer.offsetsForTimes(Map.of(filled, timestamp)).get(filled).offset());
            expectValues(80, 20, Clients.take(consumer, 20));
        }
    }

    /** A fetch that waits at the end is answered by what comes, and not only when its time is over. */
    private void waits() throws Exception {
        Map<String, String> settings = Map.of("fetch.max.wait.ms", "20000", "request.timeout.ms", "30000");
        try (KafkaConsumer<String, String> consumer = clients.consumer(settings);
                KafkaProducer<String, String> producer = clients.producer(Map.of())) {
            consumer.assign(List.of(empty));
            consumer.seekToBeginning(List.of(empty));
            Checks.expectEquals("records before", 0, consumer.poll(Duration.ofMillis(300)).count());
            producer.send(new ProducerRecord<>(empty.topic(), empty.partition(), "key", "late")).get();
            long started = System.nanoTime();
            Checks.expectEquals("value", "late", Clients.take(consumer, 1).get(0).value());
            long elapsedMs = (System.nanoTime() - started) / 1_000_000;
            Checks.expect(elapsedMs < 10_000, "the waiting fetch was answered after " + elapsedMs + " ms");
            // A close waits for the fetch that is under way.
            producer.send(new ProducerRecord<>(empty.topic(), empty.partition(), "key", "last")).get();
        }
    }

    /** Less than a batch is asked for; whole batches come all the same, and the consumer gets on. */
    private void smallFetches() {
        Map<String, String> settings =
                Map.of("max.partition.fetch.bytes", "100", "fetch.max.bytes", "100", "max.poll.records", "7");
        try (KafkaConsumer<String, String> consumer = clients.consumer(settings)) {
            consumer.assign(List.of(filled));
            consumer.seek(filled, 3);
            expectValues(3, RECORDS - 3, Clients.take(consumer, RECORDS - 3));
        }
    }

    private void noReset() throws Exception {
        Map<String, String> settings = Map.of("auto.offset.reset", "none", "group.id", Clients.unique("none"));
        try (KafkaConsumer<String, String> consumer = clients.consumer(settings)) {
            consumer.assign(List.of(filled));
            Checks.expectError("no offset", NoOffsetForPartitionException.class, () -> poll(consumer));
            consumer.seek(filled, RECORDS + 1000L);
            Checks.expectError("beyond the end", OffsetOutOfRangeException.class, () -> poll(consumer));
        }
    }

    /** Polls until it throws or the deadline is over. */
    private static void poll(KafkaConsumer<String, String> consumer) {
        Checks.await("an error of poll", () -> consumer.poll(Clients.POLL).count() > 0);
    }

    private static void expectValues(int first, int count, List<ConsumerRecord<String, String>> read) {
        Checks.expectEquals("records", count, read.size());
        for (int place = 0; place < count; place++) {
            Checks.expectEquals("offset", (long) first + place, read.get(place).offset());
            Checks.expectEquals("value", Integer.toString(first + place), read.get(place).value());
        }
    }
}
