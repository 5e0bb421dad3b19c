import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;

/** What an administrator sees of groups and their offsets, and does to them. */
final class GroupAdministration {
    private final Clients clients;
    private final Admin admin;
    private final String group = Clients.unique("administered");
    private TopicPartition kept;
    private TopicPartition dropped;

    GroupAdministration(Clients clients, Admin admin) {
        this.clients = clients;
        this.admin = admin;
    }

    void run(Checks checks) throws Exception {
        String topic = clients.newTopic("groups", 2);
        kept = new TopicPartition(topic, 0);
        dropped = new TopicPartition(topic, 1);
        for (int partition = 0; partition < 2; partition++) {
            clients.fill(topic, partition, 10, Map.of());
        }
        checks.check("offsets of a group without members", this::setsOffsets);
        checks.check("a group with a member", this::describesLiveGroup);
        checks.check("delete offsets of a group", this::deletesOffsets);
        checks.check("delete groups", this::deletesGroup);
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets() throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }

    private void setsOffsets() throws Exception {
        Map<TopicPartition, OffsetAndMetadata> chosen =
                Map.of(kept, new OffsetAndMetadata(4, "four"), dropped, new OffsetAndMetadata(6));
        admin.alterConsumerGroupOffsets(group, chosen).all().get();
        Checks.expectEquals("offsets", chosen, offsets());
        Checks.expectEquals("state", "Empty", describe().state().toString());
    }

    private ConsumerGroupDescription describe() throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group);
    }

    private void describesLiveGroup() throws Exception {
        try (Member member = new Member(clients, kept.topic(), Member.settings(group))) {
            Member.await("records from the offsets that were set", () -> member.values.size() >= 10, member);
            Checks.expectEquals("records", 10, member.values.size());
            ConsumerGroupDescription found = describe();
            Checks.expectEquals("state", "Stable", found.state().toString());
            Checks.expectEquals("members", 1, found.members().size());
            Set<TopicPartition> assigned = found.members().iterator().next().assignment().topicPartitions();
            Checks.expectEquals("assignment", Set.of(kept, dropped), assigned);
            Checks.expect(listed().contains(group), "the group is not listed");
            Checks.expectError("deleting it", GroupNotEmptyException.class, () ->
                    admin.deleteConsumerGroups(List.of(group)).all().get());
        }
        Checks.expectEquals("state when its member has left", "Empty", describe().state().toString());
    }

    private Set<String> listed() throws Exception {
        return admin.listConsumerGroups().all().get().stream()
                .map(ConsumerGroupListing::groupId)
                .collect(Collectors.toSet());
    }

    private void deletesOffsets() throws Exception {
        admin.deleteConsumerGroupOffsets(group, Set.of(dropped)).all().get();
        Checks.expectEquals("offsets", Map.of(kept, new OffsetAndMetadata(4, "four")), offsets());
    }

    private void deletesGroup() throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
        Checks.expect(!listed().contains(group), "the group is still listed");
        Checks.expectError("deleting it again", GroupIdNotFoundException.class, () ->
                admin.deleteConsumerGroups(List.of(group)).all().get());
    }
}
