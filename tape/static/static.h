/* Static functions: their schedules and statistics. */
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
    uint32_t calls;           /* running calls */
    tape_schedule *schedules; /* the latest first */
    size_t count;
    uint64_t clock; /* counts uses */
    xcvm_static_info stats;
};

/* Logs a message, if the verbosity includes its level. */
void tape_static_say(const xcvm_static *s, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The cached schedule for a call; NULL: none. */
tape_schedule *tape_static_find(const xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count);
/* True if all captures exist and have their recorded types. Otherwise the reason is logged. */
bool tape_static_has_captures(const xcvm_static *s, const tape_schedule *c);
/* The variable of operand i in a call. NULL: it is absent, or made during the call. */
const tape_variable *tape_static_operand(const tape_trace *k, const xcvm_var *in, size_t i);
/* True if operands share elements and one of them is written. The function reads what it has written; a schedule
 * would read the old elements. Captures that share elements among themselves are refused at recording. */
bool tape_static_reads_what_is_written(const tape_trace *k, const xcvm_var *in);
/* True if gradients exist that the function would add to. */
bool tape_static_has_gradients(const tape_trace *k, const xcvm_var *in);

#endif
