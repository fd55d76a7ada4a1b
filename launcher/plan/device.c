/* GPUs as their vendor's data sheets describe them. Called by cli/plan_options.c. */
#include "plan/device.h"

#include <stddef.h>

#define TERA 1e12
#define GIGA 1e9

/* Data sheets have no latencies: for an all-reduce of a few bytes between two ranks 10 us over NVLink,
 * 15 over PCIe and 25 between hosts are assumed. So is the network: 400, 200 or 100 Gbit/s for each GPU. */
#define NVLINK(gigabytes)                                                                          \
    {                                                                                              \
        .latency_s = 10e-6, .bandwidth_bytes_per_s = (gigabytes)*GIGA                              \
    }
#define PCIE4                                                                                      \
    {                                                                                              \
        .latency_s = 15e-6, .bandwidth_bytes_per_s = 25 * GIGA                                     \
    }
#define NETWORK(gigabytes)                                                                         \
    {                                                                                              \
        .latency_s = 25e-6, .bandwidth_bytes_per_s = (gigabytes)*GIGA                              \
    }

static const struct {
    const char *name;
    launch_device device;
} devices[] = {
    {"h200",
     {{67 * TERA, 494 * TERA, 989 * TERA}, 141 * GIGA, 4800 * GIGA, NVLINK(450), NETWORK(50), 8}},
    {"h100",
     {{67 * TERA, 494 * TERA, 989 * TERA}, 80 * GIGA, 3350 * GIGA, NVLINK(450), NETWORK(50), 8}},
    {"a100",
     {{19.5 * TERA, 156 * TERA, 312 * TERA}, 80 * GIGA, 2039 * GIGA, NVLINK(300), NETWORK(25), 8}},
    {"l40s",
     {{91.6 * TERA, 183 * TERA, 362 * TERA}, 48 * GIGA, 864 * GIGA, PCIE4, NETWORK(12.5), 8}},
    {"l4", {{30.3 * TERA, 60 * TERA, 121 * TERA}, 24 * GIGA, 300 * GIGA, PCIE4, NETWORK(12.5), 8}},
    {"rtx4090",
     {{82.6 * TERA, 82.6 * TERA, 165 * TERA}, 24 * GIGA, 1008 * GIGA, PCIE4, NETWORK(12.5), 8}},
};

const char *launch_device_name(int index)
{
    return index < (int)(sizeof devices / sizeof devices[0]) ? devices[index].name : NULL;
}

const launch_device *launch_device_get(int index)
{
    return &devices[index].device;
}
