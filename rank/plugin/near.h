/* Binds this process to the CPUs that are near its GPU, and asks for memory there.
 *
 * The kernel says which these are: local_cpulist and numa_node of the GPU's PCI device. Only CPUs
 * that the process may use already are taken. It is done before the GPU is used, so that the threads
 * and the pinned memory of CUDA and NCCL are near it, too. Called by the thread that starts the
 * process's work. */
#ifndef RANK_PLUGIN_NEAR_H
#define RANK_PLUGIN_NEAR_H

#include <sched.h>
#include <stdbool.h>

typedef struct rank_near {
    bool bound;       /* to `cpus` */
    cpu_set_t cpus;   /* near the GPU, of those that were allowed */
    int numa_node;    /* -1: the kernel does not say */
    bool memory_near; /* new pages are taken from that node while it has some */
    char why_not[96]; /* why it is not bound; "": it is */
} rank_near;

/* sysfs: "/sys". pci: the kernel's name of the device, "0000:19:00.0". All threads that the process
 * has are bound; later ones inherit it. Nothing is an error: without an answer of the kernel, or
 * without an allowed CPU near the GPU, everything stays as it was. */
void rank_near_bind(const char *sysfs, const char *pci, rank_near *near);

#endif
