/* Identifies the host of this process. Called by ranks for their Join, by the launchers of several
 * hosts, and by libcoll. */
#include "base/host.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kernel_file.h"

static uint64_t namespace_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

void base_host_get(base_host *host)
{
    cpu_set_t cpus;
    *host = (base_host){.pid_namespace = namespace_of("/proc/thread-self/ns/pid"),
                        .net_namespace = namespace_of("/proc/thread-self/ns/net"),
                        .time_namespace = namespace_of("/proc/self/ns/time")};
    (void)gethostname(host->hostname, sizeof host->hostname - 1);
    (void)base_kernel_line(host->boot_id, sizeof host->boot_id, "/proc/sys/kernel/random/boot_id");
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
        host->cpus = (uint32_t)CPU_COUNT(&cpus);
    }
}
