/* What both fakes of NCCL have: the one of threads (fake_nccl.c) and the one of processes
 * (tests/gpu/node/process_nccl.cc). Besides, fake_common.c has NCCL's version and memory. */
#ifndef TEST_COLL_FAKE_COMMON_H
#define TEST_COLL_FAKE_COMMON_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl/nccl_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FAKE_NCCL_RANKS_MAX = 8 };

size_t fake_element_bytes(ncclDataType_t type);
/* to += from, of ncclFloat32 or of 32-bit integers, which wrap. At any address. */
void fake_add_up(void *to, const void *from, size_t count, ncclDataType_t type);

/* The backend's kernels, when their turn on the stream has come. */
bool fake_tree_can(const coll_nccl_tree *tree);
void fake_tree(const coll_nccl_tree *tree);
void fake_begin(const coll_nccl_notes *notes, uint64_t now_ns);
void fake_end(const coll_nccl_notes *notes, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
