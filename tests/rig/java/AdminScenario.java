import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What an administrator does to topics and their settings; records and groups are in their own files. */
final class AdminScenario implements Scenario {
    private Clients clients;
    private Admin admin;
    private String topic;

    @Override
    public void run(Clients clients, Checks checks, String[] arguments) throws Exception {
        this.clients = clients;
        topic = Clients.unique("admin");
        try (Admin opened = clients.admin()) {
            admin = opened;
            checks.check("describe cluster", this::describesCluster);
            checks.check("create topics", this::createsTopics);
            checks.check("refuse topics", this::refusesTopics);
            checks.check("describe topics", this::describesTopics);
            checks.check("add partitions", this::addsPartitions);
            checks.check("describe and alter configs", this::altersConfigs);
            checks.check("describe the broker's configs", this::describesBroker);
            new RecordAdministration(clients, admin).run(checks);
            new GroupAdministration(clients, admin).run(checks);
            checks.check("access control is off", this::hasNoAccessControl);
            checks.check("delete topics", this::deletesTopics);
        }
    }

    private void describesCluster() throws Exception {
        Node controller = admin.describeCluster().controller().get();
        Checks.expect(admin.describeCluster().clusterId().get() != null, "the cluster has no id");
        Checks.expect(admin.describeCluster().nodes().get().contains(controller), "the controller is no node");
    }

    private void createsTopics() throws Exception {
        NewTopic chosen = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "123456"));
        NewTopic byDefault = new NewTopic(topic + "-default", Optional.empty(), Optional.empty());
        CreateTopicsResult created = admin.createTopics(List.of(chosen, byDefault));
        created.all().get();
        Checks.expectEquals("partitions", 3, created.numPartitions(topic).get());
        Checks.expectEquals("replicas", 1, created.replicationFactor(topic).get());
        Checks.expectEquals("retention.ms", "123456", created.config(topic).get().get("retention.ms").value());
        Checks.expectEquals("default partitions", 1, created.numPartitions(topic + "-default").get());
        NewTopic notMeant = new NewTopic(topic + "-tried", 1, (short) 1);
        admin.createTopics(List.of(notMeant), new CreateTopicsOptions().validateOnly(true)).all().get();
        for (String name : List.of(topic, topic + "-default")) {
            Clients.awaitListed(admin, name, true);
        }
        Set<String> names = admin.listTopics().names().get();
        Checks.expect(!names.contains(topic + "-tried"), "a topic that was only tried exists");
    }

    private void refusesTopics() throws Exception {
        refuses("a name twice", TopicExistsException.class, new NewTopic(topic, 1, (short) 1));
        refuses("a bad name", InvalidTopicException.class, new NewTopic("no/slashes", 1, (short) 1));
        refuses("no partitions", InvalidPartitionsException.class, new NewTopic(topic + "-0", 0, (short) 1));
        refuses("100 replicas", InvalidReplicationFactorException.class, new NewTopic(topic + "-r", 1, (short) 100));
        refuses("a bad value", InvalidConfigurationException.class,
                new NewTopic(topic + "-v", 1, (short) 1).configs(Map.of("retention.ms", "soon")));
        refuses("an unknown setting", InvalidConfigurationException.class,
                new NewTopic(topic + "-s", 1, (short) 1).configs(Map.of("no.such.setting", "1")));
    }

    private void refuses(String what, Class<? extends Throwable> error, NewTopic refused) throws Exception {
        Checks.expectError(what, error, () -> admin.createTopics(List.of(refused)).all().get());
    }

    private TopicDescription described() throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private void describesTopics() throws Exception {
        TopicDescription found = described();
        Checks.expectEquals("partitions", 3, found.partitions().size());
        Checks.expect(found.partitions().get(0).leader() != null, "a partition has no leader");
        Checks.expectEquals("replicas", 1, found.partitions().get(0).replicas().size());
        Checks.expectEquals("replicas in sync", 1, found.partitions().get(0).isr().size());
        Uuid id = found.topicId();
        Checks.expect(!Uuid.ZERO_UUID.equals(id), "the topic has no id");
        TopicCollection byId = TopicCollection.ofTopicIds(List.of(id));
        Checks.expectEquals("name of the id", topic, admin.describeTopics(byId).allTopicIds().get().get(id).name());
        Checks.expectError("an unknown topic", UnknownTopicOrPartitionException.class, () ->
                admin.describeTopics(List.of(topic + "-nowhere")).allTopicNames().get());
    }

    private void addsPartitions() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        Checks.await("five partitions", () -> Checks.now(this::described).partitions().size() == 5);
        Checks.expectError("fewer partitions", InvalidPartitionsException.class, () ->
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get());
    }

    private void altersConfigs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry chosen = config(resource).get("retention.ms");
        Checks.expectEquals("retention.ms", "123456", chosen.value());
        Checks.expectEquals("its source", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, chosen.source());
        Checks.expectEquals("cleanup.policy", "delete", config(resource).get("cleanup.policy").value());
        alter(resource, "max.message.bytes", "2000000", AlterConfigOp.OpType.SET);
        alter(resource, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        Checks.await("max.message.bytes", () -> "2000000".equals(valueNow(resource, "max.message.bytes")));
        Checks.await("the default of retention.ms", () -> "604800000".equals(valueNow(resource, "retention.ms")));
        Checks.expectError("a bad value", InvalidConfigurationException.class, () ->
                alter(resource, "retention.ms", "soon", AlterConfigOp.OpType.SET));
        Checks.expectEquals("retention.ms afterwards", "604800000", valueNow(resource, "retention.ms"));
    }

    private Config config(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private String valueNow(ConfigResource resource, String name) {
        return Checks.now(() -> config(resource)).get(name).value();
    }

    private void alter(ConfigResource resource, String name, String value, AlterConfigOp.OpType type)
            throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(name, value), type);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private void describesBroker() throws Exception {
        String id = admin.describeCluster().nodes().get().iterator().next().idString();
        Config found = config(new ConfigResource(ConfigResource.Type.BROKER, id));
        for (String name : List.of("num.partitions", "auto.create.topics.enable", "log.retention.ms")) {
            Checks.expect(found.get(name) != null, "the broker does not tell " + name);
        }
    }

    private void hasNoAccessControl() throws Exception {
        Checks.expectError("access control lists", SecurityDisabledException.class, () ->
                admin.describeAcls(AclBindingFilter.ANY).values().get());
    }

    private void deletesTopics() throws Exception {
        Uuid id = admin.describeTopics(List.of(topic + "-default")).allTopicNames().get()
                .get(topic + "-default").topicId();
        admin.deleteTopics(List.of(topic)).all().get();
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        for (String name : List.of(topic, topic + "-default")) {
            Clients.awaitListed(admin, name, false);
        }
        Checks.expectError("a topic that is gone", UnknownTopicOrPartitionException.class, () ->
                admin.deleteTopics(List.of(topic)).all().get());
        admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        Clients.awaitListed(admin, topic, true);
        Checks.expectEquals("partitions when it is made anew", 1, described().partitions().size());
    }
}
