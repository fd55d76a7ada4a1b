// The emulator's driver and device: whether they are there, what they are, and which error they have
// left. Called by the plugin instead of libcudart.
#include <cstdio>
#include <cstdlib>

#include "emulate/emulate.h"
#include "emulate/runtime.h"

namespace
{

// What the driver says. CUDA_EMULATE_DRIVER: from the beginning. CUDA_EMULATE_GPUS: the machine has so
// many, and a process that may see another one (CUDA_VISIBLE_DEVICES) finds none.
cudaError_t find_driver()
{
    const char *error = std::getenv("CUDA_EMULATE_DRIVER");
    const char *gpus = std::getenv("CUDA_EMULATE_GPUS");
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (error != nullptr) {
        return static_cast<cudaError_t>(std::atoi(error));
    }
    const bool none =
        gpus != nullptr && visible != nullptr && std::atoi(visible) >= std::atoi(gpus);
    return none ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t driver = find_driver();
cudaError_t device_error = cudaSuccess; // stays
cudaError_t last_error = cudaSuccess;
int kernels_allowed = -1;

} // namespace

cudaError_t emulate_enter()
{
    if (device_error != cudaSuccess) {
        return emulate_keep(device_error);
    }
    return driver != cudaSuccess ? emulate_keep(driver) : cudaSuccess;
}

cudaError_t emulate_keep(cudaError_t error)
{
    last_error = error;
    return error;
}

bool emulate_is_broken()
{
    return device_error != cudaSuccess;
}

// Its error stays for all later calls, as an illegal address does.
bool emulate_breaks_now()
{
    const bool breaks = kernels_allowed == 0;
    kernels_allowed -= kernels_allowed >= 0;
    device_error = breaks ? cudaErrorIllegalAddress : device_error;
    return breaks;
}

extern "C" {

void emulate_fail_kernel(int count)
{
    kernels_allowed = count;
}

void emulate_recover(void)
{
    device_error = cudaSuccess;
    last_error = cudaSuccess;
    kernels_allowed = -1;
}

void emulate_set_driver(int error)
{
    driver = static_cast<cudaError_t>(error);
    last_error = cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
        return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
        return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
        return "capturing stream has unjoined work";
    default:
        return "another error";
    }
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = device_error;
    return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = driver == cudaSuccess ? 1 : 0;
    return emulate_enter();
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return emulate_enter();
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? emulate_enter() : emulate_keep(cudaErrorInvalidValue);
}

// A process that may see one GPU of several (CUDA_VISIBLE_DEVICES) gets another UUID for each.
// CUDA_EMULATE_PCI: the PCI device that it is said to be, as 0000:19:00.0.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    *properties = {};
    (void)std::snprintf(properties->name, sizeof properties->name, "emulated GPU %d", device);
    (void)std::snprintf(properties->uuid.bytes, sizeof properties->uuid.bytes, "%.15s",
                        visible != nullptr ? visible : "all");
    unsigned domain = 0xffff;
    unsigned bus = 0;
    unsigned slot = 0;
    const char *pci = std::getenv("CUDA_EMULATE_PCI");
    (void)(pci != nullptr && std::sscanf(pci, "%x:%x:%x", &domain, &bus, &slot));
    properties->pciDomainID = static_cast<int>(domain);
    properties->pciBusID = static_cast<int>(bus);
    properties->pciDeviceID = static_cast<int>(slot);
    size_t free_bytes = 0;
    return cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return emulate_enter();
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = 0;
    return emulate_enter();
}

} // extern "C"
