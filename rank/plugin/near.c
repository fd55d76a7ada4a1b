/* Reads which CPUs are near a PCI device, and binds the process to them. Called by modes on GPUs. */
#include "plugin/near.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_file.h"

enum { LIST_BYTES = 4096, NODES_MAX = 1024, LONG_BITS = 8 * sizeof(long) };

/* A list as the kernel writes it: "0-23,48-71". False: it is none, or it is empty. */
static bool parse_list(const char *text, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (isdigit((unsigned char)*text)) {
        char *end = NULL;
        const long first = strtol(text, &end, 10);
        long last = first;
        if (*end == '-' && isdigit((unsigned char)end[1])) {
            last = strtol(end + 1, &end, 10);
        }
        if (last < first) {
            return false;
        }
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET((size_t)cpu, cpus);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return *text == '\0' && CPU_COUNT(cpus) > 0;
}

/* Binds every thread of the process. 0, or an errno: then the calling thread is as it was. */
static int bind_threads(const cpu_set_t *cpus)
{
    if (sched_setaffinity(0, sizeof *cpus, cpus) != 0) {
        return errno;
    }
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *entry = NULL;
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0) {
            (void)sched_setaffinity(thread, sizeof *cpus, cpus); /* one may have ended meanwhile */
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return 0;
}

/* Containers may forbid it. */
static bool prefer_memory(int node)
{
    unsigned long nodes[NODES_MAX / LONG_BITS] = {0};
    if (node < 0 || node >= NODES_MAX) {
        return false;
    }
    nodes[(size_t)node / LONG_BITS] = 1UL << ((size_t)node % LONG_BITS);
    return syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, NODES_MAX + 1UL) == 0;
}

void rank_near_bind(const char *sysfs, const char *pci, rank_near *near)
{
    char text[LIST_BYTES] = "";
    cpu_set_t allowed;
    int64_t node = -1;
    *near = (rank_near){.numa_node = -1};
    if (base_kernel_number(&node, "", "%s/bus/pci/devices/%s/numa_node", sysfs, pci)) {
        near->numa_node = (int)node; /* the kernel says -1, too, if there is none */
    }
    if (!base_kernel_line(text, sizeof text, "%s/bus/pci/devices/%s/local_cpulist", sysfs, pci) ||
        !parse_list(text, &near->cpus)) {
        (void)snprintf(near->why_not, sizeof near->why_not,
                       "the kernel does not say which CPUs are near the GPU");
        return;
    }
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        (void)snprintf(near->why_not, sizeof near->why_not, "the allowed CPUs are not known");
        return;
    }
    CPU_AND(&near->cpus, &near->cpus, &allowed);
    if (CPU_COUNT(&near->cpus) == 0) {
        (void)snprintf(near->why_not, sizeof near->why_not,
                       "it may use none of the CPUs near the GPU, %.40s", text);
        return;
    }
    const int error = bind_threads(&near->cpus);
    if (error != 0) {
        (void)snprintf(near->why_not, sizeof near->why_not, "cannot bind to CPUs: %.60s",
                       strerrordesc_np(error));
        return;
    }
    near->bound = true;
    near->memory_near = prefer_memory(near->numa_node);
}
