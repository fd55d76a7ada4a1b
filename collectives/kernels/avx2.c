/* The kernels for AVX2 with F16C. The build gives this file its flags; kernels.c chooses at run
 * time. */
#include "kernels/tables.h"

#define KERNELS_NAME coll_kernels_avx2
#include "kernels/body.h"
