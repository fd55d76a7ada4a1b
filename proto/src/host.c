/* Identifies the host of this process. Called by ranks for their Join, and by the launchers of
 * several hosts. */
#include "proto/host.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t namespace_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* Reads at most size_bytes - 1 bytes, because files under /proc have no size. */
static void read_line(const char *path, char *text, size_t size_bytes)
{
    text[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        const ssize_t got = read(fd, text, size_bytes - 1);
        text[got > 0 ? got : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        (void)close(fd);
    }
}

void proto_host_get(proto_host *host)
{
    cpu_set_t cpus;
    *host = (proto_host){.hostname = ""};
    (void)gethostname(host->hostname, sizeof host->hostname - 1);
    read_line("/proc/sys/kernel/random/boot_id", host->boot_id, sizeof host->boot_id);
    host->pid_namespace = namespace_of("/proc/self/ns/pid");
    host->net_namespace = namespace_of("/proc/self/ns/net");
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
        host->cpus = (uint32_t)CPU_COUNT(&cpus);
    }
}
