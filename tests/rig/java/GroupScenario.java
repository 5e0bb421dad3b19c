import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Members share a topic, come, go, crash and return; what was committed is not read again, the rest is. */
final class GroupScenario implements Scenario {
    private static final int PARTITIONS = 4;

    private Clients clients;
    private String topic;
    private String group;
    private int produced;

    @Override
    public void run(Clients clients, Checks checks, String[] arguments) throws Exception {
        this.clients = clients;
        topic = clients.newTopic("group", PARTITIONS);
        group = Clients.unique("group");
        Member first = new Member(clients, topic, Member.settings(group));
        checks.check("one member has every partition", () -> hasAll(first));
        Member second = new Member(clients, topic, Member.settings(group));
        checks.check("two members share the partitions", () -> share(first, second));
        checks.check("each record goes to one member", () -> readsOnce(40, first, second));
        checks.check("commit", () -> commits(first, second));
        checks.check("a member that leaves hands over", () -> handsOver(first, second));
        checks.check("commit and resume", () -> resumes(first));
        checks.check("a member that crashes", this::survivesCrash);
        checks.check("a static member returns without a rebalance", this::staticMemberReturns);
    }

    /** As many new values to every partition; returns them. A value begins with the number of its partition. */
    private Set<String> produce(int perPartition) throws Exception {
        Set<String> values = new TreeSet<>();
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int number = 0; number < perPartition * PARTITIONS; number++) {
            int partition = number % PARTITIONS;
            String value = partition + "/" + produced++;
            values.add(value);
            records.add(new ProducerRecord<>(topic, partition, null, value));
        }
        try (KafkaProducer<String, String> producer = clients.producer(Map.of())) {
            Clients.sendAll(producer, records);
        }
        return values;
    }

    private static void hasAll(Member... members) {
        Member.await("every partition", () -> assigned(members) == PARTITIONS, members);
    }

    private static int assigned(Member... members) {
        Set<TopicPartition> all = new HashSet<>();
        for (Member member : members) {
            all.addAll(member.assignment());
        }
        return all.size();
    }

    private static void share(Member first, Member second) {
        Member.await("two partitions each", () ->
                first.assignment().size() == 2 && second.assignment().size() == 2 && assigned(first, second) == 4,
                first, second);
    }

    private void readsOnce(int perPartition, Member... members) throws Exception {
        Set<String> expected = produce(perPartition);
        expectReadOnce(expected, members);
    }

    private static void expectReadOnce(Set<String> expected, Member... members) {
        List<String> read = new ArrayList<>();
        Member.await(expected.size() + " records", () -> {
            for (Member member : members) {
                read.addAll(member.values);
                member.values.clear();
            }
            return read.size() >= expected.size();
        }, members);
        Checks.expectEquals("values", expected, new TreeSet<>(read));
        Checks.expectEquals("number of values", expected.size(), read.size());
    }

    private void commits(Member first, Member second) {
        TopicPartition noted = first.assignment().iterator().next();
        first.consumer.commitSync();
        second.consumer.commitSync();
        first.consumer.commitSync(Map.of(noted, new OffsetAndMetadata(40, "a note")));
        Set<TopicPartition> all = new HashSet<>(first.assignment());
        all.addAll(second.assignment());
        Map<TopicPartition, OffsetAndMetadata> committed = first.consumer.committed(all);
        for (TopicPartition partition : all) {
            Checks.expectEquals("offset of " + partition, 40L, committed.get(partition).offset());
            String note = partition.equals(noted) ? "a note" : "";
            Checks.expectEquals("metadata of " + partition, note, committed.get(partition).metadata());
        }
    }

    private void handsOver(Member stays, Member leaves) throws Exception {
        leaves.close();
        hasAll(stays);
        readsOnce(3, stays);
        stays.consumer.commitSync();
    }

    private void resumes(Member last) throws Exception {
        Set<String> expected = produce(2);
        // Read, and not committed: who comes next must see it.
        expectReadOnce(expected, last);
        last.close();
        try (Member next = new Member(clients, topic, Member.settings(group))) {
            expectReadOnce(expected, next);
            next.consumer.commitSync();
        }
    }

    private void survivesCrash() throws Exception {
        Process other = null;
        try (Member survivor = new Member(clients, topic, Member.settings(group))) {
            hasAll(survivor);
            other = startMember();
            Process started = other;
            CompletableFuture<String> said = CompletableFuture.supplyAsync(() -> firstLine(started));
            Member.await("the other member's partitions", said::isDone, survivor);
            Checks.expectEquals("what the other member says", "assigned 2", said.get());
            Member.await("two partitions", () -> survivor.assignment().size() == 2, survivor);
            Set<String> others = produce(2);
            Set<String> own = removeOwn(others, survivor);
            expectReadOnce(own, survivor);
            survivor.consumer.commitSync();
            other.destroyForcibly().waitFor();
            expectReadOnce(others, survivor);
            Checks.expectEquals("partitions after the crash", PARTITIONS, survivor.assignment().size());
        } finally {
            if (other != null) {
                other.destroyForcibly();
            }
        }
    }

    /** Takes out the values of the partitions that a member has now, and returns them. */
    private static Set<String> removeOwn(Set<String> values, Member member) {
        Set<String> own = new TreeSet<>();
        for (TopicPartition partition : member.assignment()) {
            values.stream().filter(value -> value.startsWith(partition.partition() + "/")).forEach(own::add);
        }
        values.removeAll(own);
        return own;
    }

    private Process startMember() throws Exception {
        return new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                        "-cp", System.getProperty("java.class.path"),
                        "ClientCheck", "--bootstrap", clients.bootstrap, GroupMember.NAME, topic, group)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    private static String firstLine(Process process) {
        try {
            return new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        } catch (IOException error) {
            return error.toString();
        }
    }

    private void staticMemberReturns() throws Exception {
        String name = Clients.unique("static");
        Map<String, String> settings = Member.staticSettings(name, "instance-1");
        try (Member dynamic = new Member(clients, topic, Member.settings(name))) {
            hasAll(dynamic);
            Set<TopicPartition> before;
            try (Member gone = new Member(clients, topic, settings)) {
                share(dynamic, gone);
                before = gone.assignment();
            }
            int revocations = dynamic.revocations;
            try (Member again = new Member(clients, topic, settings)) {
                Member.await("its partitions", () -> !again.assignment().isEmpty(), dynamic, again);
                Checks.expectEquals("partitions of the static member", before, again.assignment());
                Checks.expectEquals("revocations of the other", revocations, dynamic.revocations);
            }
        }
    }
}
