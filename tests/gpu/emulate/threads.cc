// Runs kernels for the emulator: every thread of a block on a stack of its own, one at a time, from
// barrier to barrier. Called by streams.cc, and by kernels at their barriers.
//
// A stack runs thread after thread as long as they meet no barrier, so that kernels without one
// need one stack and no switches.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <vector>

#include "emulate/control.h"
#include "emulate/device.h"
#include "emulate/memory.h"
#include "emulate/switch.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

emulate_position emulate_here;

namespace
{

constexpr unsigned warp_size = 32;
constexpr size_t stack_bytes = 256 << 10;

[[noreturn]] void die(const char *text)
{
    std::fprintf(stderr, "emulator: %s\n", text);
    std::abort();
}

enum class state { waiting_to_start, ready, at_block, at_warp, done };

struct stack {
    emulate_context context;
    void *memory;
    void *fake; // AddressSanitizer's
    unsigned thread;
    ~stack()
    {
        (void)munmap(memory, stack_bytes);
    }
};

// Threads of a kernel that may overlap the one before it, and how often they have waited for that.
struct {
    uint64_t begun;
    uint64_t waited;
} overlapped;

// What lanes put down for each other: two sets in turns. Nobody reaches a set again before all have
// passed the other one.
constexpr size_t slot_bytes = 32;
struct warp {
    alignas(16) unsigned char slots[2][warp_size * slot_bytes];
};

// A copy into shared memory that has begun.
struct copy {
    void *to;
    const void *from; // NULL: zeros
    size_t size_bytes;
};

// The block that runs.
struct running {
    const std::function<void()> *body;
    unsigned threads;
    std::vector<unsigned> order;
    size_t next;  // in order: the first that may still have to start
    size_t limit; // in order: those from here on do not start yet
    std::vector<state> states;
    std::vector<stack *> stacks; // of each thread that has begun
    std::vector<unsigned> shuffles;
    std::vector<warp> warps;
    std::vector<std::vector<copy>> copies; // of each thread: those it has not waited for
};

running block;
std::vector<std::unique_ptr<stack>> all_stacks;
std::vector<stack *> idle;
stack *current;
emulate_context scheduler;
#if defined(__SANITIZE_ADDRESS__)
void *scheduler_fake;
const void *scheduler_bottom;
size_t scheduler_bytes;
#endif
emulate_order order = EMULATE_FORWARD;
std::mt19937_64 random_bits;

void to_stack(stack *target)
{
    current = target;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake, target->memory, stack_bytes);
#endif
    emulate_switch(&scheduler, &target->context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
}

void to_scheduler()
{
    stack *self = current;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&self->fake, scheduler_bottom, scheduler_bytes);
#endif
    emulate_switch(&self->context, &scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->fake, &scheduler_bottom, &scheduler_bytes);
#endif
}

void set_thread(unsigned thread)
{
    const dim3 dim = emulate_here.block_dim;
    emulate_here.thread_idx = dim3(thread % dim.x, thread / dim.x % dim.y, thread / dim.x / dim.y);
}

// The next thread in the order that has not begun; false if all have.
bool take_thread(unsigned *thread)
{
    for (; block.next < block.limit; block.next++) {
        if (block.states[block.order[block.next]] == state::waiting_to_start) {
            *thread = block.order[block.next++];
            return true;
        }
    }
    return false;
}

void stack_main()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_bytes);
#endif
    for (;;) {
        stack *self = current;
        block.states[self->thread] = state::ready;
        block.stacks[self->thread] = self;
        set_thread(self->thread);
        (*block.body)();
        block.states[self->thread] = state::done;
        if (!take_thread(&self->thread)) {
            idle.push_back(self);
            to_scheduler();
        }
    }
}

stack *make_stack()
{
    all_stacks.push_back(std::make_unique<stack>());
    stack *made = all_stacks.back().get();
    made->memory = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->memory == MAP_FAILED) {
        die("no memory for a stack");
    }
    emulate_make_context(&made->context, made->memory, stack_bytes, stack_main);
    return made;
}

stack *get_stack()
{
    if (idle.empty()) {
        return make_stack();
    }
    stack *found = idle.back();
    idle.pop_back();
    return found;
}

void arrange(std::vector<unsigned> &list)
{
    if (order == EMULATE_BACKWARD) {
        std::reverse(list.begin(), list.end());
    } else if (order == EMULATE_SHUFFLED) {
        std::shuffle(list.begin(), list.end(), random_bits);
    }
}

std::vector<unsigned> numbers(unsigned count)
{
    std::vector<unsigned> list(count);
    for (unsigned i = 0; i < count; i++) {
        list[i] = i;
    }
    return list;
}

// Lets all threads go on that stand in `at`, if none of these threads is before it.
bool release(unsigned first, unsigned end, state at)
{
    unsigned there = 0;
    unsigned gone = 0;
    for (unsigned t = first; t < end; t++) {
        there += block.states[t] == at;
        gone += block.states[t] == state::done;
    }
    if (there == 0 || there + gone < end - first) {
        return false;
    }
    if (gone > 0) {
        die(at == state::at_warp ? "a shuffle without all lanes of its warp"
                                 : "a barrier that not all threads of the block reach");
    }
    std::fill(block.states.begin() + first, block.states.begin() + end, state::ready);
    return true;
}

// After every thread has run as far as it can. False: all are done.
bool release_some()
{
    bool some = false;
    for (unsigned first = 0; first < block.threads; first += warp_size) {
        some = release(first, std::min(first + warp_size, block.threads), state::at_warp) || some;
    }
    some = some || release(0, block.threads, state::at_block);
    for (unsigned t = 0; !some && t < block.threads; t++) {
        if (block.states[t] != state::done) {
            die("threads of a block wait at different barriers");
        }
    }
    return some;
}

// Threads order[first … end) go on until each has met a barrier.
void step(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++) {
        const unsigned t = block.order[i];
        if (block.states[t] == state::ready) {
            set_thread(t);
            to_stack(block.stacks[t]);
        }
    }
}

void begin(unsigned first, unsigned end)
{
    unsigned thread = 0;
    block.next = first;
    block.limit = end;
    while (take_thread(&thread)) {
        stack *fresh = get_stack();
        fresh->thread = thread;
        to_stack(fresh);
    }
}

// Each warp goes on to a barrier of the block before the next one does, the last warp first. Without
// that a warp would never be more than one barrier of its own ahead of the others.
void step_warps(bool begins)
{
    for (unsigned w = (block.threads + warp_size - 1) / warp_size; w-- > 0;) {
        const unsigned low = w * warp_size;
        const unsigned high = std::min(low + warp_size, block.threads);
        const unsigned first = block.threads - high; // of the order, which goes backward
        const unsigned end = block.threads - low;
        if (begins) {
            begin(first, end);
        } else {
            step(first, end);
        }
        while (release(low, high, state::at_warp)) {
            step(first, end);
        }
    }
}

void run_block(const std::function<void()> &body, unsigned threads)
{
    block.body = &body;
    block.threads = threads;
    block.states.assign(threads, state::waiting_to_start);
    block.stacks.assign(threads, nullptr);
    block.shuffles.assign(threads, 0);
    block.warps.resize((threads + warp_size - 1) / warp_size);
    block.copies.resize(std::max<size_t>(threads, block.copies.size()));
    block.order = numbers(threads);
    arrange(block.order);
    if (order == EMULATE_BACKWARD) {
        step_warps(true);
    } else {
        begin(0, threads);
    }
    while (release_some()) {
        if (order == EMULATE_SHUFFLED) {
            arrange(block.order);
        }
        if (order == EMULATE_BACKWARD) {
            step_warps(false);
        } else {
            step(0, threads);
        }
    }
    for (const std::vector<copy> &begun : block.copies) {
        if (!begun.empty()) {
            die("a thread ends before its copies have arrived");
        }
    }
}

void carry_out(const copy &c)
{
    if (c.from != nullptr) {
        std::memcpy(c.to, c.from, c.size_bytes);
    } else {
        std::memset(c.to, 0, c.size_bytes);
    }
}

} // namespace

void emulate_sync_threads()
{
    emulate_counted.barriers++;
    block.states[current->thread] = state::at_block;
    to_scheduler();
}

// A card copies some time between here and the wait. Backward it is done here, so that a kernel fails
// which still reads what was there; else at the wait, so that one fails which does not wait.
void emulate_copy_async(void *to, const void *from, size_t size_bytes)
{
    const copy begun = {to, from, size_bytes};
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % size_bytes != 0) {
        die("a copy between addresses that are not multiples of its size");
    }
    if (order == EMULATE_BACKWARD) {
        carry_out(begun);
    } else {
        block.copies[current->thread].push_back(begun);
    }
}

void emulate_wait_for_copies()
{
    std::vector<copy> &begun = block.copies[current->thread];
    std::for_each(begun.begin(), begun.end(), carry_out);
    begun.clear();
}

// Lanes put their values down, side by side, and wait for each other.
const void *emulate_collect(const void *mine, size_t size_bytes)
{
    const unsigned thread = current->thread;
    auto &slots = block.warps[thread / warp_size].slots[block.shuffles[thread]++ % 2];
    if (size_bytes > slot_bytes) {
        die("a lane brings more than fits into its slot");
    }
    emulate_counted.barriers++;
    std::memcpy(slots + thread % warp_size * size_bytes, mine, size_bytes);
    block.states[thread] = state::at_warp;
    to_scheduler();
    return slots;
}

void emulate_exchange(const void *mine, void *other, size_t size_bytes, unsigned lane_mask)
{
    const unsigned lane = current->thread % warp_size;
    const void *all = emulate_collect(mine, size_bytes);
    std::memcpy(other, static_cast<const char *>(all) + (lane ^ lane_mask) * size_bytes,
                size_bytes);
}

void emulate_begin_overlapped()
{
    if (overlapped.begun++ == 0) {
        emulate_memory_close();
    }
}

void emulate_read_ahead(bool reads)
{
    if (overlapped.begun == 0 || overlapped.waited > 0) {
        return;
    }
    if (reads) {
        emulate_memory_open();
    } else {
        emulate_memory_close();
    }
}

void emulate_wait_for_previous()
{
    if (overlapped.begun > 0 && overlapped.waited++ == 0) {
        emulate_memory_open();
    }
}

void emulate_run_kernel(dim3 grid, dim3 dim, size_t shared_bytes, const std::function<void()> &body)
{
    const unsigned count = grid.x * grid.y * grid.z;
    const unsigned threads = dim.x * dim.y * dim.z;
    std::vector<unsigned> blocks = numbers(count);
    std::unique_ptr<unsigned char[]> shared(new unsigned char[shared_bytes]);
    arrange(blocks);
    emulate_counted.kernels++;
    emulate_counted.threads += (uint64_t)count * threads;
    emulate_here.block_dim = dim;
    emulate_here.grid_dim = grid;
    emulate_here.shared = shared.get();
    for (unsigned i : blocks) {
        std::memset(shared.get(), 0xff, shared_bytes);
        emulate_here.block_idx = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
        run_block(body, threads);
    }
    if (overlapped.waited != overlapped.begun) {
        die("not each thread of a kernel waits once for the one before");
    }
    overlapped = {0, 0};
    emulate_here.shared = nullptr;
}

extern "C" void emulate_set_order(emulate_order wanted, uint64_t seed)
{
    order = wanted;
    random_bits.seed(seed);
}
