/* The C compiler that makes kernel libraries: which one, its flags for a target, and running it. */
#ifndef XCVM_COMPILER_KERNEL_LIBRARY_CC_H
#define XCVM_COMPILER_KERNEL_LIBRARY_CC_H

#include "compiler/ir/stop.h"

enum { XCC_MOST_FLAGS = 16 };

/* The instruction set of libraries: options->target. "native" is that of this machine, and "generic" the baseline of
 * its architecture. NULL if there is no such target. */
const char *xcc_cc_isa(const xcc_options *options);
/* options->cc, or else the system's, which for another family of processors is a cross compiler. */
const char *xcc_cc_name(const xcc_options *options);
/* All flags but for files. Returns their number. */
size_t xcc_cc_flags(const xcc_options *options, const char *flags[XCC_MOST_FLAGS]);

/* One call of the compiler, which prints to the file `messages`. */
typedef struct xcc_cc_job {
    const char *const *inputs;
    size_t input_count;
    const char *output, *messages;
    bool links; /* to a shared object, and not only compiles */
} xcc_cc_job;

/* Runs the jobs, one per available processor at a time. Fails with UNSUPPORTED if the compiler cannot be run or fails;
 * the message has its first lines of output. Fails with xcc_stop_status and kills running jobs. */
xcvm_status xcc_cc_run(const xcc_options *options, const xcc_cc_job *jobs, size_t count, xcc_stop stop,
                       xcvm_error *error);

#endif
