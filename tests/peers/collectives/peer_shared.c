#include "peer_shared.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static int ranks;
static bool crowded; /* more ranks than processors */

peer_shared *peer_shared_open(const char *folder, int size)
{
    char path[4096];
    cpu_set_t allowed;
    (void)snprintf(path, sizeof path, "%s/shared", folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(peer_shared)) != 0) {
        peer_die("cannot make %s", path);
    }
    void *map = mmap(NULL, sizeof(peer_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        peer_die("cannot map %s", path);
    }
    ranks = size;
    crowded = sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < size;
    return map;
}

void peer_barrier(peer_shared *shared)
{
    const uint32_t generation = atomic_load_explicit(&shared->generation, memory_order_acquire);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == (uint32_t)ranks) {
        atomic_store(&shared->arrived, 0);
        atomic_store(&shared->generation, generation + 1);
        return;
    }
    for (unsigned spins = 0;
         atomic_load_explicit(&shared->generation, memory_order_acquire) == generation; spins++) {
        if (crowded || spins > 20000) {
            (void)sched_yield();
        }
    }
}

uint32_t peer_shared_wait_command(peer_shared *shared, uint32_t seen)
{
    uint32_t number = 0;
    while ((number = atomic_load(&shared->command_number)) == seen) {
        (void)syscall(SYS_futex, &shared->command_number, FUTEX_WAIT, seen, NULL, NULL, 0);
    }
    return number;
}

void peer_shared_post_command(peer_shared *shared, const char *command)
{
    (void)snprintf(shared->command, sizeof shared->command, "%s", command);
    atomic_fetch_add(&shared->command_number, 1);
    (void)syscall(SYS_futex, &shared->command_number, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static uint64_t clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
uint64_t peer_ticks(void)
{
    unsigned processor = 0;
    return __rdtscp(&processor);
}
#else
uint64_t peer_ticks(void)
{
    return clock_ns();
}
#endif

double peer_ticks_per_us(void)
{
    const uint64_t begin_ns = clock_ns();
    const uint64_t begin = peer_ticks();
    uint64_t now_ns = begin_ns;
    while (now_ns - begin_ns < 20000000U) {
        now_ns = clock_ns();
    }
    return (double)(peer_ticks() - begin) * 1e3 / (double)(now_ns - begin_ns);
}
