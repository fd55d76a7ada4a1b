/* A CUDA device on the CPU, for tests: kernels compiled as C++, and the runtime's functions over
 * host memory.
 *
 * It makes what a GPU leaves open visible:
 *   - Operations run as late as possible: when the host waits. Whoever reads a result before that
 *     gets the old one.
 *   - Device memory cannot be touched by the host outside of kernels and copies (it is poisoned
 *     under AddressSanitizer, else protected), and is full of NaNs when it is new.
 *   - The threads of a block run one after the other from barrier to barrier, in an order that the
 *     test chooses; so do blocks. Results that depend on it show a missing barrier.
 *   - A barrier that not all threads of a block reach, and a shuffle without all lanes of a warp,
 *     end the program.
 *   - A kernel, a memset, or a copy in a graph that gets an address of the host's memory which is not
 *     pinned ends the program. (A real GPU may or may not reach it.)
 *   - The driver's queue holds 1024 operations of a stream. Who enqueues one more waits, without a
 *     deadline.
 *   - Under AddressSanitizer every access outside of an allocation, or of a block's shared memory,
 *     ends the program.
 * It does not show what follows from real simultaneity (two blocks that wait for each other), from
 * the memory model between threads without a barrier, nor anything about speed.
 *
 * One thread at a time. */
#ifndef EMULATE_EMULATE_H
#define EMULATE_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum emulate_order {
    EMULATE_FORWARD,
    EMULATE_BACKWARD, /* each warp as far as it can before the next one */
    EMULATE_SHUFFLED, /* anew after each barrier */
} emulate_order;

/* Of the threads of a block between barriers, and of blocks. */
void emulate_set_order(emulate_order order, uint64_t seed);
/* Whether operations run at once (false: as late as possible, which is how it begins). */
void emulate_set_eager(bool eager);

/* The allocation after the next `count` fails, of device or pinned memory. -1: none. */
void emulate_fail_allocation(int count);
/* The kernel after the next `count` ends with an illegal address: every later call of the runtime
 * then returns that, until emulate_recover. -1: none. */
void emulate_fail_kernel(int count);
void emulate_recover(void);
/* How many captures may still begin, and how many of them become a graph; the others are refused. -1:
 * all, which is how it begins. */
void emulate_allow_captures(int begun, int ended);
/* What the driver says: 0, or cudaErrorInsufficientDriver, cudaErrorNoDevice, … */
void emulate_set_driver(int error);

/* From now on each kernel takes so many ns of the device's clock, each operation that waits for what
 * comes from outside (NCCL's) so many, and nothing else takes time. Streams run side by side: what
 * comes later on a stream, or behind an event, begins later. The host's calls take no time, but it is
 * as late as what it has waited for. Without this call the clock is the host's; in a process with
 * CUDA_EMULATE_CLOCK=KERNEL:OUTSIDE it has been made. */
void emulate_set_clock(uint64_t kernel_ns, uint64_t outside_ns);

typedef struct emulate_counts {
    uint64_t kernels;  /* that ran */
    uint64_t threads;  /* of them */
    uint64_t barriers; /* that a thread met: of blocks and of warps */
    uint64_t products; /* of cublasLt */
    uint64_t choices;  /* how often its heuristic was asked */
    uint64_t launches; /* of graphs */
    uint64_t full;     /* how often a launch found the driver's queue full, and waited there */
    int blocks;        /* of memory that are held now */
    int objects;       /* streams, events, graphs, descriptors that are held now */
} emulate_counts;

emulate_counts emulate_count(void);

#ifdef __cplusplus
}
#endif

#endif
