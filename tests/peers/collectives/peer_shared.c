/* The file that a peer's ranks share: commands, gate, samples. Called by peer.c and
 * peer_ringfence.c. */
#include "peer_shared.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

peer_shared *peer_shared_open(const char *directory)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/shared", directory);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(peer_shared)) != 0) {
        peer_die("cannot make %s", path);
    }
    void *map = mmap(NULL, sizeof(peer_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) {
        peer_die("cannot map %s", path);
    }
    return map;
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
