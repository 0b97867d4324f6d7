/* The regular expressions that RE2 accepts, whose syntax ONNX uses. */
#ifndef XCVM_OPS_TEXT_REGEX_SYNTAX_H
#define XCVM_OPS_TEXT_REGEX_SYNTAX_H

#include "base/status.h"

/* Fails with UNSUPPORTED, naming it, if the pattern has a PCRE2 feature that RE2 lacks: lookaround, backreferences,
 * atomic groups, recursion, verbs, Perl-only escapes. PCRE2 reports other errors. */
xcvm_status xcvm_regex_check_syntax(const char *pattern, size_t length, xcvm_error *error);

#endif
