/* The host functions that case files call (tests/ops/data/HostCall.xcvm describes them). */
#ifndef XCVM_TESTS_CASE_HOST_H
#define XCVM_TESTS_CASE_HOST_H

#include "xcvm/xcvm.h"

extern const xcvm_host_function case_host_functions[];
extern const size_t case_host_function_count;

#endif
