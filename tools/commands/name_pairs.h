/* Options of `xcvm compile` that pair two names: an output with an input, a host function with its derivative. */
#ifndef XCVM_TOOLS_COMMANDS_NAME_PAIRS_H
#define XCVM_TOOLS_COMMANDS_NAME_PAIRS_H

#include "cli/options.h"

#include <xcvm/compiler.h>

/* Splits texts OUTPUT:INPUT, at the middle colon if there are several, as in "h:0:state:0". Returns false for
 * another form. *pairs has as many elements as there are texts, and must be released in any case. */
bool state_pairs_parse(const struct text_list *texts, xcc_state_pair **pairs);
void state_pairs_release(xcc_state_pair *pairs, size_t count);

/* Likewise for texts FUNCTION=NAME. The pairs borrow NAME. */
bool vjps_parse(const struct text_list *texts, xcc_vjp_function **vjps);
void vjps_release(xcc_vjp_function *vjps, size_t count);

#endif
