/* The tables that `xcvm quantize` prints, and the names of range methods. */
#ifndef XCVM_TOOLS_COMMANDS_QUANTIZE_REPORT_H
#define XCVM_TOOLS_COMMANDS_QUANTIZE_REPORT_H

#include <xcvm/quantize.h>

#include <stdint.h>

/* The methods of --method: X(method, name). QUANTIZE_METHOD_DEFAULT chooses one of them. */
#define QUANTIZE_METHODS(X)                                                                                            \
    X(XCC_RANGE_MINMAX, "minmax")                                                                                      \
    X(XCC_RANGE_MOVING, "moving")                                                                                      \
    X(XCC_RANGE_ENTROPY, "entropy")                                                                                    \
    X(XCC_RANGE_PERCENTILE, "percentile")                                                                              \
    X(XCC_RANGE_MSE, "mse")                                                                                            \
    X(XCC_RANGE_TAIL, "tail")
#define QUANTIZE_METHOD_DEFAULT "auto"

extern const char *const quantize_method_names[]; /* by xcc_range_method */

/* Prints the results of a quantizer that has run. Tables have at most `rows` rows, except for the nodes kept in float
 * for a bound; 0: all. */
void quantize_report_print(const xcc_quantizer *quantizer, const xcc_quantizer_options *options, int64_t rows);

#endif
