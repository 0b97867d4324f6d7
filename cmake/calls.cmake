# cmake -DINPUT=calls.txt -DOUTPUT=tape_calls.h -P calls.cmake: the header of the tape's calls, from what the C preprocessor
# makes of tape/calls.h.in.
file(READ ${INPUT} text)
# Rows without results have no struct of them.
string(REGEX MATCHALL "xcvm_[A-Za-z0-9]+_results { }" empty "${text}")
foreach(match IN LISTS empty)
  string(REGEX REPLACE " { }" "" name "${match}")
  string(REPLACE "struct ${match};\n" "" text "${text}")
  string(REPLACE "struct ${name} out; " "" text "${text}")
endforeach()
string(REPLACE " enum {" "\nenum {" text "${text}")
string(REPLACE "COMMENT \"" "\n/* " text "${text}")
string(REPLACE "\" END struct" " */\nstruct" text "${text}")
string(REPLACE "{ xcvm" "{\n    xcvm" text "${text}")
string(REGEX REPLACE "; (xcvm_|int|double|const|struct)" ";\n    \\1" text "${text}")
string(REPLACE "; }" ";\n}" text "${text}")
string(REPLACE "\nHASH define " "\n#define " text "${text}")
string(REPLACE "(REST)" "(...)" text "${text}")
string(REPLACE "ARGUMENTS" "__VA_ARGS__" text "${text}")
string(REPLACE "_call){ " "_call){" text "${text}")
string(REPLACE "xcvm_var * " "xcvm_var *" text "${text}")
string(FIND "${text}" "\nstruct " enums_end)
string(SUBSTRING "${text}" 0 ${enums_end} enums)
string(SUBSTRING "${text}" ${enums_end} -1 rest)
file(WRITE ${OUTPUT} "/*
 * The calls of the tape, a macro for each instruction, made from the instruction table. Include xcvm/tape.h.
 *
 * What a call takes is a struct: the tape, operands, attributes, where results go. Attributes that are left out have the
 * defaults that the macro begins with, and those that are named override them: warnings of initialisers that do are
 * turned off for who includes this.
 */
#ifndef XCVM_TAPE_CALLS_H
#define XCVM_TAPE_CALLS_H

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic ignored \"-Woverride-init\"
#endif

#ifndef XCVM_OPS_CHOICES_H
${enums}
#endif
${rest}
#endif
")
