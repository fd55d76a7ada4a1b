/* The floor as one side of the comparison: floor.h says what it is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "floor.h"

enum { BUFFERS_MAX = 64 };

typedef struct floor_buffer {
    bool in_arena;
    float *ranks[PEER_RANKS_MAX]; /* where each rank's is mapped here; NULL: out of reach */
} floor_buffer;

static struct {
    peer_options options;
    const floor_way *way;
    int count;
    floor_buffer made[BUFFERS_MAX];
    floor_buffers buffers;
} floor_state;

void *floor_map(const peer_options *options, const char *name, int rank, size_t size_bytes)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s-%d", options->directory, name, rank);
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

floor_swap floor_swap_of(const peer_task *task, int rank, int root)
{
    const size_t n = task->count;
    const size_t own = (size_t)rank * n;
    const size_t others = (size_t)(1 - rank) * n;
    switch (task->kind) {
    case PEER_ALL_REDUCE:
        return (floor_swap){task->recv, n, task->recv, n, task->recv, NULL, NULL, 0};
    case PEER_REDUCE_SCATTER:
        return (floor_swap){task->send + others, n, task->recv, n, task->send + own, NULL, NULL, 0};
    case PEER_ALL_GATHER:
        return (floor_swap){task->send, n,          task->recv + others, n,
                            NULL,       task->send, task->recv + own,    n};
    case PEER_ALL_TO_ALL:
        return (floor_swap){task->send + others, n, task->recv + others, n, NULL, task->send + own,
                            task->recv + own,    n};
    default:
        return rank == root ? (floor_swap){task->recv, n, NULL, 0, NULL, NULL, NULL, 0}
                            : (floor_swap){NULL, 0, task->recv, n, NULL, NULL, NULL, 0};
    }
}

static void open_floor(peer_options *options)
{
    floor_state.options = *options;
    floor_state.way = strcmp(options->transport, "tcp") == 0   ? &floor_tcp
                      : strcmp(options->transport, "zmq") == 0 ? &floor_zmq
                      : options->size == 2                     ? &floor_pair
                                                               : &floor_crowd;
    if (options->size != 2 && floor_state.way != &floor_crowd) {
        peer_die("between namespaces the floor is for two ranks");
    }
    floor_state.way->open(options);
}

static void close_floor(void)
{
}

static const char *variants(peer_kind kind)
{
    return floor_state.way->has(kind) ? "default" : NULL;
}

static void *allocate(const char *place, size_t size_bytes)
{
    const int rank = floor_state.options.rank;
    char name[32];
    if (floor_state.count == BUFFERS_MAX) {
        peer_die("too many buffers");
    }
    floor_buffer *made = &floor_state.made[floor_state.count];
    (void)snprintf(name, sizeof name, "buffer%d", floor_state.count++);
    made->in_arena = strcmp(place, "arena") == 0;
    made->ranks[rank] =
        made->in_arena ? NULL : aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    for (int r = 0; made->in_arena && r < floor_state.options.size; r++) {
        made->ranks[r] = floor_map(&floor_state.options, name, r, size_bytes);
    }
    return made->ranks[rank];
}

static const floor_buffer *find(const float *data)
{
    for (int i = 0; i < floor_state.count; i++) {
        if (floor_state.made[i].ranks[floor_state.options.rank] == data) {
            return &floor_state.made[i];
        }
    }
    peer_die("a buffer that is none of the floor's");
}

static void prepare(const peer_task *task)
{
    const floor_buffer *send = find(task->send);
    const floor_buffer *recv = find(task->recv);
    floor_state.buffers.in_arena = recv->in_arena;
    for (int r = 0; r < floor_state.options.size; r++) {
        floor_state.buffers.send[r] = send->ranks[r];
        floor_state.buffers.recv[r] = recv->ranks[r];
    }
    if (floor_state.way->prepare != NULL) {
        floor_state.way->prepare();
    }
}

static void run(const peer_task *task, int root)
{
    floor_state.way->run(task, root, &floor_state.buffers);
}

int main(int argc, char **argv)
{
    static const peer_library library = {.name = "floor",
                                         .variants = variants,
                                         .open = open_floor,
                                         .close = close_floor,
                                         .allocate = allocate,
                                         .prepare = prepare,
                                         .run = run};
    return peer_main(argc, argv, &library);
}
