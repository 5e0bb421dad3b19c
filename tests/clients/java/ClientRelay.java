import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Lends the Java client to another process: one command a line on stdin, one answer a line on stdout.
 *
 * <p>Fields are separated by tabs. The first is the command, the second the name of the producer or consumer.
 * An answer is "ok" and its fields, or "error" and a message; "send" is not answered. Bytes are in base64,
 * null is "-", the fields within a record are separated by commas, those within a header by colons.
 */
public final class ClientRelay {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration ANSWER = Duration.ofSeconds(30);
    private static final String NULL = "-";

    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> sent = new HashMap<>();
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ClientRelay relay = new ClientRelay();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = relay.obey(line.split("\t", -1));
            } catch (Exception error) {
                answer = "error\t" + error.toString().replaceAll("\\s+", " ");
            }
            if (answer != null) {
                out.println(answer);
            }
        }
        // A client that was left open must not keep the process alive.
        System.exit(0);
    }

    private String obey(String[] fields) throws Exception {
        String name = fields[1];
        return switch (fields[0]) {
            case "producer" -> openProducer(name, settings(fields));
            case "send" -> send(name, fields);
            case "flush" -> flush(name);
            case "consumer" -> openConsumer(name, settings(fields));
            case "assign" -> assign(name, place(fields), Long.parseLong(fields[4]));
            case "subscribe" -> subscribe(name, fields[2]);
            case "poll" -> poll(name);
            case "assignment" -> assignment(name);
            case "time" -> time(name, place(fields), Long.parseLong(fields[4]));
            case "commit" -> commit(name, fields);
            case "close" -> close(name);
            default -> throw new IllegalArgumentException(fields[0]);
        };
    }

    private static Map<String, Object> settings(String[] fields) {
        Map<String, Object> settings = new HashMap<>();
        for (int place = 2; place < fields.length; place++) {
            String[] parts = fields[place].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return settings;
    }

    private static TopicPartition place(String[] fields) {
        return new TopicPartition(fields[2], Integer.parseInt(fields[3]));
    }

    private String openProducer(String name, Map<String, Object> settings) {
        producers.put(name, new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()));
        sent.put(name, new ArrayList<>());
        return "ok";
    }

    private String send(String name, String[] fields) {
        TopicPartition to = place(fields);
        Long timestamp = fields[4].equals(NULL) ? null : Long.valueOf(fields[4]);
        ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(to.topic(), to.partition(), timestamp, bytes(fields[5]), bytes(fields[6]));
        for (int place = 7; place < fields.length; place++) {
            String[] parts = fields[place].split(":", 2);
            record.headers().add(new String(bytes(parts[0]), StandardCharsets.UTF_8), bytes(parts[1]));
        }
        sent.get(name).add(producers.get(name).send(record));
        return null;
    }

    private String flush(String name) throws Exception {
        producers.get(name).flush();
        StringBuilder answer = new StringBuilder("ok");
        for (Future<RecordMetadata> one : sent.get(name)) {
            answer.append('\t').append(one.get().offset());
        }
        return answer.toString();
    }

    private String openConsumer(String name, Map<String, Object> settings) {
        consumers.put(name, new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        return "ok";
    }

    private String assign(String name, TopicPartition place, long offset) {
        consumers.get(name).assign(List.of(place));
        consumers.get(name).seek(place, offset);
        return "ok";
    }

    private String subscribe(String name, String topic) {
        consumers.get(name).subscribe(List.of(topic));
        return "ok";
    }

    private String poll(String name) {
        StringBuilder answer = new StringBuilder("ok");
        for (ConsumerRecord<byte[], byte[]> record : consumers.get(name).poll(POLL)) {
            answer.append('\t').append(record.partition()).append(',').append(record.offset());
            answer.append(',').append(record.timestamp());
            answer.append(',').append(text(record.key())).append(',').append(text(record.value()));
            for (Header header : record.headers()) {
                answer.append(',').append(text(header.key().getBytes(StandardCharsets.UTF_8)));
                answer.append(':').append(text(header.value()));
            }
        }
        return answer.toString();
    }

    private String assignment(String name) {
        StringBuilder answer = new StringBuilder("ok");
        for (TopicPartition place : consumers.get(name).assignment()) {
            answer.append('\t').append(place.partition());
        }
        return answer.toString();
    }

    private String time(String name, TopicPartition place, long timestamp) {
        OffsetAndTimestamp found = consumers.get(name).offsetsForTimes(Map.of(place, timestamp), ANSWER).get(place);
        return found == null ? "ok" : "ok\t" + found.offset();
    }

    private String commit(String name, String[] fields) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int place = 3; place < fields.length; place++) {
            String[] parts = fields[place].split(":");
            TopicPartition partition = new TopicPartition(fields[2], Integer.parseInt(parts[0]));
            offsets.put(partition, new OffsetAndMetadata(Long.parseLong(parts[1])));
        }
        consumers.get(name).commitSync(offsets, ANSWER);
        return "ok";
    }

    private String close(String name) {
        if (producers.containsKey(name)) {
            producers.remove(name).close();
            sent.remove(name);
        } else {
            consumers.remove(name).close();
        }
        return "ok";
    }

    private static byte[] bytes(String text) {
        return text.equals(NULL) ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? NULL : Base64.getEncoder().encodeToString(bytes);
    }
}
