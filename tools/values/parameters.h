/* Inputs, outputs and states of a program as text. */
#ifndef XCVM_TOOLS_VALUES_PARAMETERS_H
#define XCVM_TOOLS_VALUES_PARAMETERS_H

#include <xcvm/xcvm.h>

/* Prints a line for each input, output and state on standard output, with its name and type. */
void parameters_print(const xcvm_program *program);

#endif
