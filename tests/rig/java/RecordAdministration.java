import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.TimestampType;

/** What an administrator sees of stored records, and does to them. */
final class RecordAdministration {
    private static final int RECORDS = 20;
    private static final long OLD_MS = Clients.AN_HOUR_AGO_MS;

    private final Clients clients;
    private final Admin admin;
    private TopicPartition partition;

    RecordAdministration(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    void run(Checks checks) throws Exception {
        partition = new TopicPartition(clients.newTopic("records", 1), 0);
        clients.fill(partition.topic(), 0, RECORDS, Map.of());
        checks.check("list offsets", this::listsOffsets);
        checks.check("describe producers", this::describesProducers);
        checks.check("describe log directories", this::describesLogDirectories);
        checks.check("delete records", this::deletesRecords);
        checks.check("log append time", this::stampsOnAppend);
    }

    private long offset(OffsetSpec where) throws Exception {
        Map<TopicPartition, ListOffsetsResultInfo> found = admin.listOffsets(Map.of(partition, where)).all().get();
        return found.get(partition).offset();
    }

    private void listsOffsets() throws Exception {
        Checks.expectEquals("earliest", 0L, offset(OffsetSpec.earliest()));
        Checks.expectEquals("latest", (long) RECORDS, offset(OffsetSpec.latest()));
        long highest = offset(OffsetSpec.maxTimestamp());
        Checks.expect(highest >= 0 && highest < RECORDS, "the highest timestamp is at " + highest);
        Checks.expectEquals("after all", -1L, offset(OffsetSpec.forTimestamp(Long.MAX_VALUE / 2)));
    }

    private void describesProducers() throws Exception {
        List<ProducerState> producers =
                admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers();
        Checks.expectEquals("producers", 1, producers.size());
        Checks.expectEquals("last sequence", RECORDS - 1, producers.get(0).lastSequence());
        Checks.expectEquals("epoch", 0, producers.get(0).producerEpoch());
    }

    private void describesLogDirectories() throws Exception {
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        List<ReplicaInfo> found = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values()
                .stream()
                .map(directory -> directory.replicaInfos().get(partition))
                .filter(replica -> replica != null)
                .toList();
        Checks.expectEquals("directories that hold the partition", 1, found.size());
        Checks.expect(found.get(0).size() > 0, "the partition has " + found.get(0).size() + " bytes");
    }

    private void deletesRecords() throws Exception {
        Checks.expectEquals("low watermark", 8L, delete(8));
        Checks.expectEquals("earliest", 8L, offset(OffsetSpec.earliest()));
        Checks.expectEquals("first record", 8L, clients.read(partition, RECORDS - 8).get(0).offset());
        Checks.expectEquals("low watermark after less", 8L, delete(5));
        Checks.expectError("beyond the end", OffsetOutOfRangeException.class, () -> delete(RECORDS + 1));
        Checks.expectEquals("low watermark after all", (long) RECORDS, delete(-1));
        Checks.expectEquals("latest", (long) RECORDS, offset(OffsetSpec.latest()));
    }

    private long delete(long before) throws Exception {
        return admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before)))
                .lowWatermarks().get(partition).get().lowWatermark();
    }

    private void stampsOnAppend() throws Exception {
        String topic = Clients.unique("append-time");
        Map<String, String> configs = Map.of("message.timestamp.type", "LogAppendTime");
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1).configs(configs))).all().get();
        Clients.awaitListed(admin, topic, true);
        try (KafkaProducer<String, String> producer = clients.producer(Map.of())) {
            long stamped = producer.send(new ProducerRecord<>(topic, 0, OLD_MS, null, "old")).get().timestamp();
            Checks.expect(stamped > OLD_MS + 60_000, "the answer has the producer's timestamp");
            var read = clients.read(new TopicPartition(topic, 0), 1).get(0);
            Checks.expectEquals("timestamp", stamped, read.timestamp());
            Checks.expectEquals("its type", TimestampType.LOG_APPEND_TIME, read.timestampType());
        }
    }
}
