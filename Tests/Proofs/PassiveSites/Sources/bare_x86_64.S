/* Handwritten chain functions without unwind information:
 * int through_...(int (*function)(void *), void *context). */
        .text

        .globl through_framed, framed_code, framed_code_end
        .p2align 4
through_framed:
framed_code:
        push %rbp
        mov %rsp, %rbp
        push %rbx
        sub $24, %rsp
        mov %rdi, %rax
        mov %rsi, %rdi
        call *%rax
        mov -8(%rbp), %rbx
        leave
        ret
framed_code_end:

        .globl through_unframed, unframed_code, unframed_code_end
        .p2align 4
through_unframed:
unframed_code:
        sub $40, %rsp
        mov %rdi, %rax
        mov %rsi, %rdi
        call *%rax
        add $40, %rsp
        ret
unframed_code_end:

        .globl through_kept
        .p2align 4
through_kept:
        push %rbx
        push %rbp
        sub $8, %rsp
        mov %rdi, %rbx
        mov %rdi, %rbp
        mov %rsi, %rdi
        call *%rbx
        add $8, %rsp
        pop %rbp
        pop %rbx
        ret

/* Calls through a thunk (retpoline), which compilers use against speculative jumps. */
        .globl through_thunk
        .p2align 4
through_thunk:
        push %rbp
        mov %rsp, %rbp
        mov %rdi, %rax
        mov %rsi, %rdi
        call thunk
        pop %rbp
        ret

        .p2align 4
thunk:
        call 2f
1:      pause
        lfence
        jmp 1b
2:      mov %rax, (%rsp)
        ret

        .section .note.GNU-stack, "", @progbits
