/* The instruction sets that there are kernels for, and "native", as choices of an option. */
#ifndef XCVM_TOOLS_RUN_ISA_CHOICES_H
#define XCVM_TOOLS_RUN_ISA_CHOICES_H

#include "base/isas.h"

#define ISA_CHOICE(of, kind, suffix, name, has, ...) "|" name
#define ISA_CHOICES "native" XCVM_ALL_ISAS(ISA_CHOICE, )

#endif
