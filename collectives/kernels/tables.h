/* The tables of kernels, one per instruction set, indexed by coll_type and coll_reduce_op. */
#ifndef COLL_SRC_KERNELS_TABLES_H
#define COLL_SRC_KERNELS_TABLES_H

#include "kernels/kernels.h"

typedef const coll_kernel coll_kernel_table[COLL_TYPE_LAST + 1][COLL_REDUCE_OP_LAST + 1];

extern coll_kernel_table coll_kernels_baseline;
extern coll_kernel_table coll_kernels_avx2;
extern coll_kernel_table coll_kernels_avx512f;

#endif
