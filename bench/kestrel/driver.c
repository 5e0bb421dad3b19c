/* Load on a server of memcache-protocol queues: one thread, one epoll, any number of connections.
 *
 * Every reply is compared with the bytes that it has to be. A connection whose reply differs is counted as an error and
 * closed. Connections are up before the clock is started; the last answer stops it. One line of JSON on stdout.
 * python_driver.py takes the same options where there is no C compiler. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum kind { SET, GET, MONITOR, CONFIRM };
enum operation { OP_SET, OP_GET, OP_SET_GET, OP_MONITOR };
static const char *OPERATIONS[] = {"set", "get", "set+get", "monitor"};

struct text { char *bytes; size_t length; };
struct request { uint64_t sent_ns; enum kind kind; };

struct connection {
    int fd;
    int is_writing;                 /* EPOLLOUT is asked for */
    char *out; size_t out_start, out_end;
    char *in; size_t in_start, in_end;
    struct request *waiting;        /* a ring of `depth` */
    int first, outstanding;
    long quota, done, asked, monitored;
    struct text set, get, value;    /* both requests, and what a get has to answer */
    size_t value_head;              /* of `value`: where the item starts */
};

static const struct text STORED = {"STORED\r\n", 8}, END = {"END\r\n", 5};
static const size_t IN_BYTES = 256 << 10;
static const int STALLED_MS = 30000;

static struct {
    const char *host, *queue, *key_options;
    int port, connections, depth, queues, is_burst, may_miss, monitor_seconds;
    enum operation operation;
    size_t item_bytes;
    long count, number_from;
    double seconds;
} job = {"127.0.0.1", "bench", "", 22133, 1, 1, 1, 0, 0, 1, OP_SET, 100, -1, -1, 0};

static int poller;
static uint64_t deadline_ns = UINT64_MAX;
static long ops, misses, errors, number_put, number_got;
static char first_error[160];
static uint32_t *latencies;         /* tenths of a microsecond */
static size_t latency_count, latency_room;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static void *room(size_t bytes) {
    void *place = calloc(1, bytes);
    if (!place) die("no memory for %zu bytes", bytes);
    return place;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

/* Texts: an item is x's, or the digits of its number and then x's. */

static struct text item_between(const char *before, const char *after, size_t *item_at) {
    struct text text = {NULL, strlen(before) + job.item_bytes + strlen(after)};
    text.bytes = room(text.length + 1);
    char *end = stpcpy(text.bytes, before);
    *item_at = end - text.bytes;
    memset(end, 'x', job.item_bytes);
    strcpy(end + job.item_bytes, after);
    return text;
}

static void number_item(char *item, long number) {
    char digits[24];
    size_t length = snprintf(digits, sizeof digits, "%ld", number);
    memset(item, 'x', job.item_bytes < sizeof digits ? job.item_bytes : sizeof digits);
    memcpy(item, digits, length < job.item_bytes ? length : job.item_bytes);
}

static void render_texts(struct connection *c, int number) {
    char queue[256], line[600];
    size_t item_at;
    if (job.queues > 1) snprintf(queue, sizeof queue, "%s%d", job.queue, number % job.queues);
    else snprintf(queue, sizeof queue, "%s", job.queue);
    snprintf(line, sizeof line, "set %s 0 0 %zu\r\n", queue, job.item_bytes);
    c->set = item_between(line, "\r\n", &item_at);
    snprintf(line, sizeof line, "VALUE %s 0 %zu\r\n", queue, job.item_bytes);
    c->value = item_between(line, "\r\nEND\r\n", &c->value_head);
    snprintf(line, sizeof line, "get %s%s\r\n", queue, job.key_options);
    c->get = (struct text){strdup(line), strlen(line)};
}

/* Sending */

static void watch(struct connection *c, int operation, int is_writing) {
    struct epoll_event event = {.events = EPOLLIN | (is_writing ? EPOLLOUT : 0), .data.ptr = c};
    c->is_writing = is_writing;
    if (epoll_ctl(poller, operation, c->fd, &event)) die("epoll_ctl: %s", strerror(errno));
}

static void fail(struct connection *c, const char *why, const char *bytes, size_t length) {
    if (!errors++)
        for (size_t at = snprintf(first_error, 80, "%s: ", why), i = 0; i < length && i < 60; i++)
            first_error[at + i] = bytes[i] < ' ' || bytes[i] > '~' || strchr("\"\\", bytes[i]) ? '.' : bytes[i];
    close(c->fd);
    c->fd = -1;
}

static void flush(struct connection *c) {
    while (c->out_start < c->out_end) {
        ssize_t sent = send(c->fd, c->out + c->out_start, c->out_end - c->out_start, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) { fail(c, strerror(errno), "", 0); return; }
        c->out_start += sent;
    }
    int is_writing = c->out_start < c->out_end;
    if (!is_writing) c->out_start = c->out_end = 0;
    if (is_writing != c->is_writing) watch(c, EPOLL_CTL_MOD, is_writing);
}

static void ask(struct connection *c, enum kind kind, const char *bytes, size_t length, uint64_t now) {
    if (c->out_start) {
        memmove(c->out, c->out + c->out_start, c->out_end -= c->out_start);
        c->out_start = 0;
    }
    memcpy(c->out + c->out_end, bytes, length);
    c->out_end += length;
    c->waiting[(c->first + c->outstanding++) % job.depth] = (struct request){now, kind};
    c->asked++;
}

static void ask_next(struct connection *c, uint64_t now) {
    if (job.operation == OP_MONITOR) {
        char line[600];
        long left = c->quota - c->done;
        int length = snprintf(line, sizeof line, "monitor %.*s %d %ld\r\n", (int)c->get.length - 6, c->get.bytes + 4,
                              job.monitor_seconds, left < job.depth ? left : job.depth);
        ask(c, MONITOR, line, length, now);
        c->monitored = 0;
    } else if (job.operation == OP_GET || (job.operation == OP_SET_GET && c->asked % 2)) {
        ask(c, GET, c->get.bytes, c->get.length, now);
    } else {
        if (job.number_from >= 0) number_item(c->set.bytes + c->set.length - 2 - job.item_bytes, number_put++);
        ask(c, SET, c->set.bytes, c->set.length, now);
    }
}

static void fill(struct connection *c, uint64_t now) {
    int depth = job.operation == OP_MONITOR ? 1 : job.depth;
    if (now < deadline_ns && !(job.is_burst && c->outstanding))
        while (c->outstanding < depth && c->done + c->outstanding < c->quota) ask_next(c, now);
    if (c->out_end) flush(c);
}

/* Receiving */

static void note(struct connection *c, uint64_t now) {
    c->done++;
    ops++;
    if (latency_count == latency_room) {
        latency_room = latency_room ? 2 * latency_room : 1 << 16;
        if (!(latencies = realloc(latencies, latency_room * sizeof *latencies))) die("no memory for latencies");
    }
    latencies[latency_count++] = (now - c->waiting[c->first].sent_ns) / 100;
}

static void answered(struct connection *c) {
    c->first = (c->first + 1) % job.depth;
    c->outstanding--;
}

/* How many bytes were as expected: all of them, 0 = they are not all there yet, -1 = they differ. */
static long match(struct connection *c, struct text expected, size_t head) {
    size_t there = c->in_end - c->in_start;
    const char *bytes = c->in + c->in_start;
    if (memcmp(bytes, expected.bytes, there < head ? there : head)) return -1;
    if (there < expected.length) return 0;
    return memcmp(bytes, expected.bytes, expected.length) ? -1 : (long)expected.length;
}

static long match_value(struct connection *c, uint64_t now) {
    if (job.number_from >= 0) number_item(c->value.bytes + c->value_head, number_got);
    long taken = match(c, c->value, c->value_head);
    if (taken > 0) {
        number_got++;
        note(c, now);
    }
    return taken;
}

static long match_monitored(struct connection *c, uint64_t now) {
    long taken;
    if (c->in[c->in_start] == 'V') {
        if ((taken = match_value(c, now)) > 0) c->monitored++;
        return taken;
    }
    if ((taken = match(c, END, 1)) <= 0) return taken;
    answered(c);
    char line[600];
    int length = snprintf(line, sizeof line, "confirm %.*s %ld\r\n", (int)c->get.length - 6, c->get.bytes + 4, c->monitored);
    if (c->monitored) ask(c, CONFIRM, line, length, now);
    else misses++;
    return taken;
}

static long match_reply(struct connection *c, uint64_t now) {
    enum kind kind = c->waiting[c->first].kind;
    long taken;
    if (kind == MONITOR) return match_monitored(c, now);
    if (kind == SET) {
        if ((taken = match(c, STORED, 1)) > 0) note(c, now);
    } else if (kind == GET && !(job.may_miss && c->in[c->in_start] == 'E')) {
        taken = match_value(c, now);
    } else {
        taken = match(c, END, 1);
        misses += kind == GET && taken > 0;
    }
    if (taken > 0) answered(c);
    return taken;
}

static void receive(struct connection *c, size_t in_bytes) {
    ssize_t got = recv(c->fd, c->in + c->in_end, in_bytes - c->in_end, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) { fail(c, got ? strerror(errno) : "the server closed the connection", "", 0); return; }
    c->in_end += got;
    uint64_t now = now_ns();
    while (c->in_start < c->in_end) {
        long taken = c->outstanding ? match_reply(c, now) : -1;
        if (taken < 0) { fail(c, "unexpected", c->in + c->in_start, c->in_end - c->in_start); return; }
        if (!taken) break;
        c->in_start += taken;
    }
    memmove(c->in, c->in + c->in_start, c->in_end - c->in_start);
    c->in_end -= c->in_start;
    c->in_start = 0;
    fill(c, now);
}

/* The run */

static void connect_to_server(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(job.port)};
    int on = 1;
    if (inet_pton(AF_INET, job.host, &address.sin_addr) != 1) die("%s is not an IPv4 address", job.host);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (void *)&address, sizeof address)) die("no connection: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    watch(c, EPOLL_CTL_ADD, 0);
}

static struct connection *open_all(size_t in_bytes) {
    struct connection *all = room(job.connections * sizeof *all);
    for (int i = 0; i < job.connections; i++) {
        struct connection *c = &all[i];
        render_texts(c, i);
        c->in = room(in_bytes);
        c->out = room((job.depth + 1) * (c->set.length + c->get.length + 600));
        c->waiting = room(job.depth * sizeof *c->waiting);
        c->quota = job.count < 0 ? INT64_MAX / 2 : job.count / job.connections + (i < job.count % job.connections);
        connect_to_server(c);
    }
    return all;
}

static int is_busy(const struct connection *all) {
    for (int i = 0; i < job.connections; i++)
        if (all[i].fd >= 0 && all[i].outstanding) return 1;
    return 0;
}

static double run(struct connection *all, size_t in_bytes) {
    struct epoll_event events[256];
    uint64_t started_ns = now_ns();
    if (job.seconds > 0) deadline_ns = started_ns + (uint64_t)(job.seconds * 1e9);
    for (int i = 0; i < job.connections; i++) fill(&all[i], started_ns);
    while (is_busy(all)) {
        int ready = epoll_wait(poller, events, 256, STALLED_MS);
        if (ready < 0 && errno != EINTR) die("epoll_wait: %s", strerror(errno));
        if (!ready) { errors++; strcpy(first_error, "the server does not answer"); break; }
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->fd >= 0 && events[i].events & EPOLLOUT) flush(c);
            if (c->fd >= 0 && events[i].events & ~EPOLLOUT) receive(c, in_bytes);
        }
    }
    return (now_ns() - started_ns) / 1e9;
}

static int by_size(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void print_result(double seconds) {
    static const struct { const char *name; double share; } PERCENTILES[] = {
        {"min_us", 0}, {"p50_us", .5}, {"p90_us", .9}, {"p95_us", .95}, {"p99_us", .99}, {"p999_us", .999}, {"max_us", 1}};
    qsort(latencies, latency_count, sizeof *latencies, by_size);
    printf("{\"ops\": %ld, \"seconds\": %.6f, \"errors\": %ld, \"misses\": %ld, \"first_error\": \"%s\"", ops, seconds, errors,
           misses, first_error);
    for (size_t i = 0; i < sizeof PERCENTILES / sizeof *PERCENTILES; i++) {
        size_t rank = latency_count ? (size_t)(PERCENTILES[i].share * (latency_count - 1) + .5) : 0;
        printf(", \"%s\": %.1f", PERCENTILES[i].name, latency_count ? latencies[rank] / 10.0 : 0.0);
    }
    printf("}\n");
}

static void parse_options(int argc, char **argv) {
    static const struct option OPTIONS[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"operation", 1, 0, 'o'}, {"item-bytes", 1, 0, 'b'},
        {"connections", 1, 0, 'c'}, {"depth", 1, 0, 'd'}, {"count", 1, 0, 'n'}, {"seconds", 1, 0, 's'},
        {"queue", 1, 0, 'q'}, {"queues", 1, 0, 'Q'}, {"key-options", 1, 0, 'k'}, {"number-from", 1, 0, 'f'},
        {"monitor-seconds", 1, 0, 'M'}, {"burst", 0, 0, 'B'}, {"may-miss", 0, 0, 'm'}, {0, 0, 0, 0}};
    for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) >= 0;) switch (option) {
        case 'h': job.host = optarg; break;
        case 'p': job.port = atoi(optarg); break;
        case 'b': job.item_bytes = strtoul(optarg, NULL, 10); break;
        case 'c': job.connections = atoi(optarg); break;
        case 'd': job.depth = atoi(optarg); break;
        case 'n': job.count = atol(optarg); break;
        case 's': job.seconds = atof(optarg); break;
        case 'q': job.queue = optarg; break;
        case 'Q': job.queues = atoi(optarg); break;
        case 'k': job.key_options = optarg; break;
        case 'f': job.number_from = number_put = number_got = atol(optarg); break;
        case 'M': job.monitor_seconds = atoi(optarg); break;
        case 'B': job.is_burst = 1; break;
        case 'm': job.may_miss = 1; break;
        case 'o':
            for (job.operation = 0; strcmp(OPERATIONS[job.operation], optarg);)
                if (++job.operation > OP_MONITOR) die("there is no operation %s", optarg);
            break;
        default: exit(2);
        }
    if (job.connections < 1 || job.depth < 1 || (job.count < 0 && job.seconds <= 0)) die("nothing to do");
    if (strlen(job.queue) > 200 || strlen(job.key_options) > 200) die("a name is too long");
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    size_t in_bytes = IN_BYTES + 2 * job.item_bytes;
    if ((poller = epoll_create1(0)) < 0) die("epoll_create: %s", strerror(errno));
    print_result(run(open_all(in_bytes), in_bytes));
    return 0;
}
