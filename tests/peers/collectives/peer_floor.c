/* What the machine allows: an all-reduce between two ranks with nothing around it; over tcp, all
 * kinds. No library, no checks, no other number of ranks; the figure that says when a bar is out of
 * reach.
 *
 * shm: each rank adds one half, from both buffers to both, between two flags; up to 56 bytes travel
 * in the flag's own line. zmq: one message each way over a PAIR.
 *
 * tcp: one socket that does not pace (bbr is set to reno) and has 4 MiB of buffer. Each side sends
 * all it has in one call and then receives, polling, straight to where it belongs; only all-reduce
 * and reduce-scatter receive into memory beside and add. Of what was tried between two namespaces
 * nothing was faster: less per call (64 KiB: half as fast), receiving between sends, halves instead
 * of the whole vector, adding while more arrives. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "peer.h"

enum { INLINE_BYTES = 56, ENDPOINT_BYTES = 64 };

typedef struct flag_line {
    _Alignas(128) _Atomic uint64_t sequence;
    uint8_t payload[INLINE_BYTES];
} flag_line;

typedef struct flags {
    flag_line line[2][2]; /* of each rank, by turns */
    flag_line done[2];
} flags;

static struct {
    peer_options options;
    enum { FLOOR_SHM, FLOOR_TCP, FLOOR_ZMQ } kind;
    flags *flags;
    uint64_t sequence;
    int files;
    const float *mine; /* the buffer that theirs belongs to */
    float *theirs;     /* shm: the peer's buffer; else room for what it sends */
    int socket;
    void *zmq;
} bare;

static void *map_file(const char *name, int rank, size_t size_bytes)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s-%d", bare.options.folder, name, rank);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size_bytes) != 0) {
        peer_die("cannot make %s", path);
    }
    void *map = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        peer_die("cannot map %s", path);
    }
    return map;
}

static const char *own_address(void)
{
    return bare.options.address != NULL ? bare.options.address : "127.0.0.1";
}

/* Before it connects or listens: windows and pacing are settled then. */
static void set_up(int link)
{
    const int one = 1;
    const int buffer = 4 << 20;
    char congestion[17] = "";
    socklen_t length = sizeof congestion - 1;
    if (setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        setsockopt(link, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) != 0 ||
        setsockopt(link, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) != 0 ||
        getsockopt(link, IPPROTO_TCP, TCP_CONGESTION, congestion, &length) != 0 ||
        (strncmp(congestion, "bbr", 3) == 0 &&
         setsockopt(link, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) != 0)) {
        peer_die("cannot set the socket up: %s", strerror(errno));
    }
}

static void open_tcp(void)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in all[2];
    socklen_t length = sizeof own;
    int link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int listener = link;
    set_up(link);
    if (inet_pton(AF_INET, own_address(), &own.sin_addr) != 1 ||
        bind(link, (struct sockaddr *)&own, sizeof own) != 0 || listen(link, 1) != 0 ||
        getsockname(link, (struct sockaddr *)&own, &length) != 0) {
        peer_die("cannot listen on %s: %s", own_address(), strerror(errno));
    }
    peer_exchange(&own, all, sizeof own);
    if (bare.options.rank == 0) {
        link = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    } else {
        link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        set_up(link);
        if (connect(link, (struct sockaddr *)&all[0], sizeof all[0]) != 0) {
            peer_die("cannot connect: %s", strerror(errno));
        }
    }
    if (fcntl(link, F_SETFL, O_NONBLOCK) != 0) {
        peer_die("cannot set the socket up: %s", strerror(errno));
    }
    bare.socket = link;
}

static void open_zmq(void)
{
    char endpoint[ENDPOINT_BYTES] = "";
    char all[2][ENDPOINT_BYTES];
    size_t length = sizeof endpoint;
    bare.zmq = zmq_socket(zmq_ctx_new(), ZMQ_PAIR);
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s:*", own_address());
    if (bare.options.rank == 0 &&
        (zmq_bind(bare.zmq, endpoint) != 0 ||
         zmq_getsockopt(bare.zmq, ZMQ_LAST_ENDPOINT, endpoint, &length) != 0)) {
        peer_die("cannot bind %s", endpoint);
    }
    peer_exchange(endpoint, all, sizeof endpoint);
    if (bare.options.rank == 1 && zmq_connect(bare.zmq, all[0]) != 0) {
        peer_die("cannot connect to %s", all[0]);
    }
}

static void open_bare(peer_options *options)
{
    bare.options = *options;
    bare.kind = strcmp(options->transport, "tcp") == 0   ? FLOOR_TCP
                : strcmp(options->transport, "zmq") == 0 ? FLOOR_ZMQ
                                                         : FLOOR_SHM;
    if (options->size != 2) {
        peer_die("the floor is for two ranks");
    }
    if (bare.kind == FLOOR_SHM) {
        bare.flags = map_file("flags", 0, sizeof(flags));
    } else if (bare.kind == FLOOR_TCP) {
        open_tcp();
    } else {
        open_zmq();
    }
}

static void close_bare(void)
{
}

static const char *variants(peer_kind kind)
{
    return kind == PEER_ALL_REDUCE || bare.kind == FLOOR_TCP ? "default" : NULL;
}

/* The second buffer of a pair is the one that all-reduce uses. */
static void *allocate(const char *place, size_t size_bytes)
{
    char name[32];
    (void)place;
    (void)snprintf(name, sizeof name, "buffer%d", bare.files++);
    if (bare.kind != FLOOR_SHM) {
        free(bare.theirs);
        bare.theirs = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
        return aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    }
    bare.mine = map_file(name, bare.options.rank, size_bytes);
    bare.theirs = map_file(name, 1 - bare.options.rank, size_bytes);
    return (void *)bare.mine;
}

static void await(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
    }
}

static void add_shm(float *mine, size_t count)
{
    const int rank = bare.options.rank;
    const uint64_t turn = ++bare.sequence;
    flag_line *own = &bare.flags->line[rank][turn % 2];
    flag_line *other = &bare.flags->line[1 - rank][turn % 2];
    if (count * sizeof(float) <= INLINE_BYTES) {
        float received[INLINE_BYTES / sizeof(float)];
        memcpy(own->payload, mine, count * sizeof(float));
        atomic_store_explicit(&own->sequence, turn, memory_order_release);
        await(&other->sequence, turn);
        memcpy(received, other->payload, count * sizeof(float));
        for (size_t i = 0; i < count; i++) {
            mine[i] += received[i];
        }
        return;
    }
    const size_t half = count / 2;
    float *restrict a = mine + (rank == 0 ? 0 : half);
    float *restrict b = bare.theirs + (rank == 0 ? 0 : half);
    const size_t share = rank == 0 ? half : count - half;
    atomic_store_explicit(&own->sequence, turn, memory_order_release);
    await(&other->sequence, turn);
    for (size_t i = 0; i < share; i++) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
    atomic_store_explicit(&bare.flags->done[rank].sequence, turn, memory_order_release);
    await(&bare.flags->done[1 - rank].sequence, turn);
}

/* Sends and receives so much; either may be nothing. */
static void swap_tcp(const void *mine, size_t send_bytes, void *theirs, size_t receive_bytes)
{
    size_t sent = 0;
    size_t received = 0;
    while (sent < send_bytes || received < receive_bytes) {
        if (sent < send_bytes) {
            const ssize_t moved =
                send(bare.socket, (const uint8_t *)mine + sent, send_bytes - sent, MSG_NOSIGNAL);
            sent += moved > 0 ? (size_t)moved : 0;
        }
        if (received < receive_bytes) {
            const ssize_t moved =
                recv(bare.socket, (uint8_t *)theirs + received, receive_bytes - received, 0);
            if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) {
                peer_die("the other side is gone");
            }
            received += moved > 0 ? (size_t)moved : 0;
        }
    }
}

static void add_tcp(float *sum, const float *mine, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] = mine[i] + bare.theirs[i];
    }
}

static void run_tcp(const peer_task *task, int root)
{
    const size_t me = (size_t)bare.options.rank;
    const size_t count = task->count;
    const size_t bytes = count * sizeof(float);
    const float *own = task->send + me * count; /* of kinds with a block per rank */
    const float *other = task->send + (1 - me) * count;
    switch (task->kind) {
    case PEER_BROADCAST:
        swap_tcp(task->recv, root == bare.options.rank ? bytes : 0, task->recv,
                 root == bare.options.rank ? 0 : bytes);
        return;
    case PEER_REDUCE_SCATTER:
        swap_tcp(other, bytes, bare.theirs, bytes);
        add_tcp(task->recv, own, count);
        return;
    case PEER_ALL_GATHER:
        memcpy(task->recv + me * count, task->send, bytes);
        swap_tcp(task->send, bytes, task->recv + (1 - me) * count, bytes);
        return;
    case PEER_ALL_TO_ALL:
        memcpy(task->recv + me * count, own, bytes);
        swap_tcp(other, bytes, task->recv + (1 - me) * count, bytes);
        return;
    default:
        swap_tcp(task->recv, bytes, bare.theirs, bytes);
        add_tcp(task->recv, task->recv, count);
        return;
    }
}

static void swap_zmq(const void *mine, size_t size_bytes)
{
    if (zmq_send(bare.zmq, mine, size_bytes, 0) < 0 ||
        zmq_recv(bare.zmq, bare.theirs, size_bytes, 0) != (int)size_bytes) {
        peer_die("zmq: %s", zmq_strerror(zmq_errno()));
    }
}

static void run(const peer_task *task, int root)
{
    if (bare.kind == FLOOR_SHM) {
        add_shm(task->recv, task->count);
    } else if (bare.kind == FLOOR_TCP) {
        run_tcp(task, root);
    } else {
        swap_zmq(task->recv, task->count * sizeof(float));
        for (size_t i = 0; i < task->count; i++) {
            task->recv[i] += bare.theirs[i];
        }
    }
}

int main(int argc, char **argv)
{
    static const peer_library library = {.name = "floor",
                                         .variants = variants,
                                         .open = open_bare,
                                         .close = close_bare,
                                         .allocate = allocate,
                                         .run = run};
    return peer_main(argc, argv, &library);
}
