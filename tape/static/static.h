/* Static functions: their schedules, and what is counted of them. */
#ifndef XCVM_TAPE_STATIC_STATIC_H
#define XCVM_TAPE_STATIC_STATIC_H

#include "tape/static/schedule.h"
#include "xcvm/tape_static.h"

struct xcvm_static {
    xcvm_tape *tape;
    xcvm_static_function function;
    char *name;
    xcvm_static_options options;
    bool enabled, training, checking;
    uint32_t calls;           /* of it that go on */
    tape_schedule *schedules; /* the latest first */
    size_t count;
    uint64_t clock; /* of their use */
    xcvm_static_info stats;
};

/* Tells the log, if it wants to know as much. */
void tape_static_say(const xcvm_static *s, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The schedule that is kept for such a call; NULL: there is none. */
tape_schedule *tape_static_find(const xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count);
/* Whether what it has captured is there, and of the type that it had; else the log is told. */
bool tape_static_has_captures(const xcvm_static *s, const tape_schedule *c);
/* What operand i is for a call. NULL: it is absent, or there is none before the call. */
const tape_variable *tape_static_operand(const tape_trace *k, const xcvm_var *in, size_t i);
/* Whether an operand shares its elements with another, and one of them is written into: the function reads what it has
 * written, the schedule what was there before. What is captured shares them with what is not at most, or it would have
 * been refused. */
bool tape_static_reads_what_is_written(const tape_trace *k, const xcvm_var *in);
/* Whether gradients are there already that the function would add to. */
bool tape_static_has_gradients(const tape_trace *k, const xcvm_var *in);

#endif
