/* Which regular expressions RE2 takes, in whose syntax ONNX has them. */
#ifndef XCVM_OPS_TEXT_REGEX_SYNTAX_H
#define XCVM_OPS_TEXT_REGEX_SYNTAX_H

#include "base/status.h"

/* Fails with UNSUPPORTED, naming it, if the pattern has something that RE2 leaves out of what PCRE2 understands: what
 * looks around or back, atomic groups, recursion, verbs, escapes of Perl's alone. Other mistakes are left to PCRE2. */
xcvm_status xcvm_regex_check_syntax(const char *pattern, size_t length, xcvm_error *error);

#endif
