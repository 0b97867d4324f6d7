/* Static functions: their schedules, and what is counted of them. */
#ifndef XCVM_TAPE_STATIC_FUNCTION_H
#define XCVM_TAPE_STATIC_FUNCTION_H

#include "tape/static/schedule.h"
#include "xcvm/tape_static.h"

struct xcvm_static {
    xcvm_tape *tape;
    xcvm_static_function function;
    void *user;
    char *name;
    xcvm_static_options options;
    bool enabled, training, checking;
    tape_schedule *schedules; /* the latest first */
    size_t count;
    uint64_t clock; /* of their use */
    xcvm_static_stats stats;
};

#endif
