/* When work must stop: after a time, or when it is cancelled. */
#ifndef XCVM_COMPILER_IR_STOP_H
#define XCVM_COMPILER_IR_STOP_H

#include "xcvm/compiler.h"

typedef struct xcc_stop {
    uint64_t deadline_ns;      /* monotonic clock; 0: never */
    const uint32_t *cancelled; /* atomic; nonzero: stop. NULL: never */
} xcc_stop;

/* Returns OK, OUT_OF_TIME or CANCELLED. */
xcvm_status xcc_stop_status(xcc_stop stop);

#endif
