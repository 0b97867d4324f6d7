/* Options of `xcvm compile` that pair two names: an output with an input, a host function with its derivative. */
#ifndef XCVM_TOOLS_COMMANDS_NAME_PAIRS_H
#define XCVM_TOOLS_COMMANDS_NAME_PAIRS_H

#include "cli/options.h"

#include <xcvm/compiler.h>

/* Takes texts OUTPUT:INPUT apart, of several colons, as in "h:0:state:0", at the middle one; false if one is none. What
 * *pairs then is, of as many as there are texts, is to be released in any case. */
bool state_pairs_parse(const struct text_list *texts, xcc_state_pair **pairs);
void state_pairs_release(xcc_state_pair *pairs, size_t count);

/* The same of texts FUNCTION=NAME, which lend the names behind the sign. */
bool vjps_parse(const struct text_list *texts, xcc_vjp_function **vjps);
void vjps_release(xcc_vjp_function *vjps, size_t count);

#endif
