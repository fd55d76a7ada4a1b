// Goes from one stack to another. Private to threads.cc.
//
// On x86-64 it saves the registers that a call must keep, and nothing else: swapcontext asks the
// kernel for the signal mask each time, and a kernel's barriers would take a hundred times as long.
#ifndef EMULATE_SWITCH_H
#define EMULATE_SWITCH_H

#include <cstddef>

#if defined(__x86_64__)

typedef void *emulate_context; // the stack's pointer

extern "C" void emulate_switch_stacks(void **save, void *to);
asm(".pushsection .text\n"
    ".globl emulate_switch_stacks\n"
    ".hidden emulate_switch_stacks\n"
    ".type emulate_switch_stacks, @function\n"
    "emulate_switch_stacks:\n"
    "    pushq %rbx\n"
    "    pushq %rbp\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbp\n"
    "    popq %rbx\n"
    "    ret\n"
    ".size emulate_switch_stacks, . - emulate_switch_stacks\n"
    ".popsection\n");

// `main` never returns.
static inline void emulate_make_context(emulate_context *context, void *stack, size_t size_bytes,
                                        void (*main)())
{
    enum { SAVED = 6 };
    void **top = reinterpret_cast<void **>(static_cast<char *>(stack) + size_bytes);
    *--top = nullptr; // where a return address would be, and the stack aligned as after a call
    *--top = reinterpret_cast<void *>(main);
    for (int i = 0; i < SAVED; i++) {
        *--top = nullptr;
    }
    *context = top;
}

static inline void emulate_switch(emulate_context *save, emulate_context *to)
{
    emulate_switch_stacks(save, *to);
}

#else

#include <ucontext.h>

typedef ucontext_t emulate_context;

static inline void emulate_make_context(emulate_context *context, void *stack, size_t size_bytes,
                                        void (*main)())
{
    (void)getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = size_bytes;
    context->uc_link = nullptr;
    makecontext(context, main, 0);
}

static inline void emulate_switch(emulate_context *save, emulate_context *to)
{
    (void)swapcontext(save, to);
}

#endif

#endif
