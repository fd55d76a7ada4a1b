/* Chooses CPUs for ranks within the cgroup's quota, and claims each by an abstract socket name.
 * Called by job_run.c, and by --dry-run (cli/dry_run.c). */
#include "job/affinity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/cgroup.h"
#include "base/kernel_file.h"

/* The lowest CPU that shares a core with this one. */
static int first_sibling(int cpu)
{
    int64_t first = cpu;
    (void)base_kernel_number(&first, "",
                             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    return (int)first;
}

/* The allowed CPUs in the order in which ranks take them: one CPU of each core first, then their
 * siblings. */
static int list_cpus(const cpu_set_t *allowed, int *cpus)
{
    cpu_set_t cores;
    int count = 0;
    int sibling_count = 0;
    int siblings[CPU_SETSIZE];
    CPU_ZERO(&cores);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed)) {
            continue;
        }
        const int core = first_sibling(cpu);
        if (core >= 0 && core < CPU_SETSIZE && !CPU_ISSET(core, &cores)) {
            CPU_SET(core, &cores);
            cpus[count++] = cpu;
        } else {
            siblings[sibling_count++] = cpu;
        }
    }
    memcpy(cpus + count, siblings, (size_t)sibling_count * sizeof siblings[0]);
    return count + sibling_count;
}

/* Binds a socket to the CPU's name. Returns -1 if another process has the name. */
static int claim_cpu(int cpu)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length =
        snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "ringfence-cpu-%d", cpu);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (bind(fd, (const struct sockaddr *)&address, size) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void release(launch_affinity *affinity)
{
    for (int i = 0; affinity->claims != NULL && i < affinity->claim_count; i++) {
        (void)close(affinity->claims[i]);
    }
    affinity->claim_count = 0;
}

/* Takes `wanted` of the listed CPUs, leaving out those that another job has. */
static void claim_cpus(launch_affinity *affinity, const int *cpus, int cpu_count, int wanted)
{
    int taken = 0;
    for (int i = 0; i < cpu_count && taken < wanted; i++) {
        const int fd = claim_cpu(cpus[i]);
        if (fd >= 0) {
            affinity->claims[affinity->claim_count++] = fd;
            affinity->cpus[taken++] = cpus[i];
        }
    }
    affinity->bound = taken == wanted;
    if (!affinity->bound) {
        affinity->taken = true;
        (void)snprintf(affinity->why_not, sizeof affinity->why_not,
                       "%d %s wanted, %d not taken by other jobs", wanted,
                       wanted == 1 ? "CPU" : "CPUs", taken);
        release(affinity);
    }
}

/* Whether this process has fewer CPUs than the first process of this host, or of its container. */
static bool is_restricted(const cpu_set_t *allowed)
{
    cpu_set_t all;
    return sched_getaffinity(1, sizeof all, &all) == 0 && CPU_COUNT(allowed) < CPU_COUNT(&all);
}

/* Whether this process sees all processes of the machine: it is in the first PID namespace, whose
 * inode has a fixed number, and in the first network namespace, which alone has all sysctls. */
static bool sees_whole_machine(void)
{
    static const ino_t first_pid_namespace = 0xEFFFFFFC;
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 && info.st_ino == first_pid_namespace &&
           access("/proc/sys/net/core/netdev_max_backlog", F_OK) == 0;
}

/* Whether jobs that this one's claims do not reach may use the same CPUs: those of other containers,
 * unless this one was given a part of the machine's CPUs. */
static bool has_unseen_jobs(const cpu_set_t *allowed)
{
    return CPU_COUNT(allowed) >= sysconf(_SC_NPROCESSORS_ONLN) && !sees_whole_machine();
}

base_status launch_affinity_init(launch_affinity *affinity, int ranks, int cpus_per_rank,
                                 launch_affinity_how how, base_error *reterr)
{
    cpu_set_t allowed;
    int cpus[CPU_SETSIZE];
    *affinity = (launch_affinity){.cpus_per_rank = cpus_per_rank};
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        (void)snprintf(affinity->why_not, sizeof affinity->why_not,
                       "the allowed CPUs are not known");
        return BASE_OK;
    }
    const int64_t wanted = (int64_t)ranks * cpus_per_rank;
    affinity->allowed = list_cpus(&allowed, cpus);
    affinity->quota = base_cgroup_cpu_quota("");
    int usable = affinity->allowed;
    if (affinity->quota > 0 && affinity->quota < usable) {
        usable = affinity->quota;
    }
    if (wanted > usable) {
        (void)snprintf(affinity->why_not, sizeof affinity->why_not,
                       "%" PRId64 " CPUs wanted, %d usable", wanted, usable);
        return BASE_OK;
    }
    if (how == LAUNCH_AFFINITY_ENGINE && is_restricted(&allowed)) {
        affinity->bound = true;
        affinity->given = true;
        affinity->given_cpus = allowed;
        return BASE_OK;
    }
    if (has_unseen_jobs(&allowed)) {
        (void)snprintf(affinity->why_not, sizeof affinity->why_not,
                       "other containers may use the same CPUs");
        return BASE_OK;
    }
    affinity->claims = calloc((size_t)wanted, sizeof affinity->claims[0]);
    affinity->cpus = calloc((size_t)wanted, sizeof affinity->cpus[0]);
    if (affinity->claims == NULL || affinity->cpus == NULL) {
        launch_affinity_fini(affinity);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the list of CPUs");
    }
    claim_cpus(affinity, cpus, affinity->allowed, (int)wanted);
    if (how == LAUNCH_AFFINITY_LOOK) {
        release(affinity);
    }
    return BASE_OK;
}

void launch_affinity_fini(launch_affinity *affinity)
{
    release(affinity);
    free(affinity->claims);
    free(affinity->cpus);
    *affinity = (launch_affinity){0};
}

void launch_cpus_unpack(const uint8_t *bits, size_t bytes, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (size_t cpu = 0; cpu < bytes * 8 && cpu < CPU_SETSIZE; cpu++) {
        if ((bits[cpu / 8] >> (cpu % 8) & 1) != 0) {
            CPU_SET(cpu, set);
        }
    }
}

void launch_affinity_set(const launch_affinity *affinity, int rank, cpu_set_t *set)
{
    BASE_ASSERT(affinity->bound);
    CPU_ZERO(set);
    if (affinity->given) {
        *set = affinity->given_cpus;
    }
    for (int i = 0; i < affinity->cpus_per_rank && !affinity->given; i++) {
        CPU_SET(affinity->cpus[rank * affinity->cpus_per_rank + i], set);
    }
}
