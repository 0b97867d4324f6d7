/* Profiles: sums over the events of runs, by instruction and by kind of instruction. */
#ifndef XCVM_TOOLS_PROFILE_PROFILE_H
#define XCVM_TOOLS_PROFILE_PROFILE_H

#include <xcvm/xcvm.h>

#include <stdio.h>

struct profile_row {
    char *instruction, *node, *shape; /* shape of the first result in the last run */
    int32_t pc;                       /* of a kind: -1 */
    uint64_t calls, ns, flops, bytes;
};

/* A zero-initialized profile is empty. */
struct profile {
    struct profile_row *rows; /* by pc */
    size_t count;
    uint64_t run_ns; /* the caller adds time and runs */
    size_t runs;
};

void profile_add(struct profile *profile, const xcvm_event *event);
/* Prints both tables; `top` 0 prints all instructions. */
void profile_print(const struct profile *profile, bool by_time, size_t top, FILE *stream);
/* Sums by kind of instruction, slowest first. Release *kinds with profile_kinds_release. They borrow their texts. */
size_t profile_kinds(const struct profile *profile, struct profile_row **kinds);
void profile_kinds_release(struct profile_row *kinds);

/* The phases of a training step. */
enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASES };
const char *profile_phase_name(enum phase phase);
/* `optimizer` is the value of --train. */
enum phase profile_phase_of(const struct profile_row *row, const char *optimizer);
/* Sums by phase. */
void profile_phases(const struct profile *profile, const char *optimizer, struct profile_row phases[PHASES]);
/* Prints the shares of forward pass, backward pass and optimizer in a training step. */
void profile_print_phases(const struct profile *profile, const char *optimizer, FILE *stream);
void profile_release(struct profile *profile);

#endif
