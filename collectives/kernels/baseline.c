/* The kernels for one instruction set; the build gives this file its flags. */
#include "kernels/tables.h"

#define KERNELS_NAME coll_kernels_baseline
#include "kernels/body.h"
