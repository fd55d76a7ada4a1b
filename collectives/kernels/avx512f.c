/* The kernels for AVX-512. The build gives this file its flags; kernels.c chooses at run time. */
#include "kernels/tables.h"

#define KERNELS_NAME coll_kernels_avx512f
#include "kernels/body.h"
