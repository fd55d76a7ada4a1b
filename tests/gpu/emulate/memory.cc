// Memory of the emulator: what cudaMalloc, cudaHostAlloc and cudaHostRegister give. Called by the
// plugin and by streams.cc.
#include "emulate/memory.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

#include "emulate/control.h"
#include "emulate/runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace
{

constexpr size_t unprotected_bytes = (size_t)16 << 20;
constexpr size_t page_bytes = 4096;
constexpr size_t alignment = 256; // of cudaMalloc

struct allocation {
    cudaMemoryType type;
    size_t size_bytes;
    void *mapping; // the pages, where it is protected; else NULL
    size_t mapping_bytes;
    bool registered;
};

// CUDA_EMULATE_MEMORY: bytes of the device's memory.
size_t find_device_bytes()
{
    const char *given = std::getenv("CUDA_EMULATE_MEMORY");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : (size_t)4 << 30;
}

const size_t device_bytes = find_device_bytes();
std::map<const char *, allocation> allocations; // by address
size_t used_bytes;                              // of the device's memory
int allowed = -1;                               // allocations until one fails; -1: none does
bool is_open;

std::map<const char *, allocation>::iterator find(const void *memory)
{
    const char *at = static_cast<const char *>(memory);
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) {
        return allocations.end();
    }
    --next;
    return at < next->first + next->second.size_bytes ? next : allocations.end();
}

// Under AddressSanitizer memory is poisoned to the byte. Else its pages are protected, and it ends
// at the end of a page, so that what lies behind it is out of reach.
// cublasLt's workspace is left out: it is large, and only the library knows what is in it.
void protect(const char *memory, const allocation &of, bool open)
{
    if (of.size_bytes >= unprotected_bytes) {
        return;
    }
#if defined(__SANITIZE_ADDRESS__)
    if (open) {
        ASAN_UNPOISON_MEMORY_REGION(memory, of.size_bytes);
    } else {
        ASAN_POISON_MEMORY_REGION(memory, of.size_bytes);
    }
#else
    (void)memory;
    if (mprotect(of.mapping, of.mapping_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
        std::abort();
    }
#endif
}

char *get(size_t size_bytes, allocation *made)
{
#if defined(__SANITIZE_ADDRESS__)
    void *memory = nullptr;
    (void)made;
    return posix_memalign(&memory, alignment, size_bytes) == 0 ? static_cast<char *>(memory)
                                                               : nullptr;
#else
    const size_t whole = (size_bytes + alignment - 1) / alignment * alignment;
    const size_t pages = (whole + page_bytes - 1) / page_bytes * page_bytes;
    void *mapping = mmap(nullptr, pages + page_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED ||
        mprotect(static_cast<char *>(mapping) + pages, page_bytes, PROT_NONE) != 0) {
        return nullptr;
    }
    made->mapping = mapping;
    made->mapping_bytes = pages;
    return static_cast<char *>(mapping) + pages - whole;
#endif
}

void give_back(const char *memory, const allocation &of)
{
    protect(memory, of, true);
#if defined(__SANITIZE_ADDRESS__)
    std::free(const_cast<char *>(memory));
#else
    (void)munmap(of.mapping, of.mapping_bytes + page_bytes);
#endif
}

cudaError_t allocate(void **memory, size_t size_bytes, cudaMemoryType type)
{
    const cudaError_t error = emulate_enter();
    if (error != cudaSuccess) {
        return error;
    }
    allocation made = {type, size_bytes, nullptr, 0, false};
    const size_t device_part = type == cudaMemoryTypeDevice ? size_bytes : 0;
    if (allowed == 0 || used_bytes + device_part > device_bytes) {
        allowed = -1;
        return emulate_keep(cudaErrorMemoryAllocation);
    }
    allowed -= allowed > 0;
    char *found = get(size_bytes, &made);
    if (found == nullptr) {
        return emulate_keep(cudaErrorMemoryAllocation);
    }
    std::memset(found, 0xff, size_bytes); // not a number
    allocations[found] = made;
    used_bytes += device_part;
    emulate_counted.blocks++;
    if (type == cudaMemoryTypeDevice) {
        protect(found, made, is_open);
    }
    *memory = found;
    return cudaSuccess;
}

cudaError_t release(void *memory, cudaMemoryType type)
{
    if (memory == nullptr) {
        return cudaSuccess;
    }
    (void)emulate_wait_for_all();
    auto found = allocations.find(static_cast<const char *>(memory));
    if (found == allocations.end() || found->second.type != type || found->second.registered) {
        return emulate_keep(cudaErrorInvalidValue);
    }
    used_bytes -= type == cudaMemoryTypeDevice ? found->second.size_bytes : 0;
    emulate_counted.blocks--;
    give_back(found->first, found->second);
    allocations.erase(found);
    return cudaSuccess;
}

void set_all(bool open)
{
    if (open == is_open) {
        return;
    }
    is_open = open;
    for (auto &each : allocations) {
        if (each.second.type == cudaMemoryTypeDevice) {
            protect(each.first, each.second, open);
        }
    }
}

// Addresses of this process lie from here on; numbers, and AddressSanitizer's own memory, below.
constexpr uint64_t address_first = (uint64_t)1 << 45;
constexpr uint64_t address_end = (uint64_t)1 << 48;

bool is_mapped(uint64_t address)
{
    return msync(reinterpret_cast<void *>(address & ~(uint64_t)(page_bytes - 1)), page_bytes,
                 MS_ASYNC) == 0;
}

// The end of an allocation counts as its own: that of an empty part.
bool is_of_device(uint64_t address)
{
    const char *at = reinterpret_cast<const char *>(address);
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) {
        return false;
    }
    --next;
    return at <= next->first + next->second.size_bytes;
}

} // namespace

void emulate_check_addresses(const void *argument, size_t size_bytes, const char *what)
{
    const char *at = static_cast<const char *>(argument);
    for (size_t i = 0; i + sizeof(uint64_t) <= size_bytes; i += sizeof(uint64_t)) {
        uint64_t word;
        std::memcpy(&word, at + i, sizeof word);
        if (word >= address_first && word < address_end && !is_of_device(word) && is_mapped(word)) {
            std::fprintf(stderr, "emulator: %s gets an address of the host, 0x%llx, in byte %zu\n",
                         what, (unsigned long long)word, i);
            std::abort();
        }
    }
}

void emulate_memory_open()
{
    set_all(true);
}

void emulate_memory_close()
{
    set_all(false);
}

extern "C" {

void emulate_fail_allocation(int count)
{
    allowed = count;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = device_bytes;
    *free_bytes = device_bytes - used_bytes;
    return emulate_enter();
}

cudaError_t cudaMalloc(void **memory, size_t size_bytes)
{
    return allocate(memory, size_bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, cudaMemoryTypeDevice);
}

cudaError_t cudaHostAlloc(void **memory, size_t size_bytes, unsigned flags)
{
    (void)flags;
    return allocate(memory, size_bytes, cudaMemoryTypeHost);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, cudaMemoryTypeHost);
}

cudaError_t cudaHostRegister(void *memory, size_t size_bytes, unsigned flags)
{
    (void)flags;
    if (find(memory) != allocations.end()) {
        return emulate_keep(cudaErrorHostMemoryAlreadyRegistered);
    }
    allocations[static_cast<const char *>(memory)] = {cudaMemoryTypeHost, size_bytes, nullptr, 0,
                                                      true};
    emulate_counted.blocks++;
    return emulate_enter();
}

cudaError_t cudaHostUnregister(void *memory)
{
    const auto found = allocations.find(static_cast<const char *>(memory));
    if (found == allocations.end() || !found->second.registered) {
        return emulate_keep(cudaErrorInvalidValue);
    }
    emulate_counted.blocks--;
    allocations.erase(found);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
    const auto found = find(memory);
    *attributes = {};
    attributes->type = found == allocations.end() ? cudaMemoryTypeUnregistered : found->second.type;
    return emulate_enter();
}

} // extern "C"
