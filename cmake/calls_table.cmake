# cmake -DINPUT=calls.txt -DOUTPUT=tape_calls.def -P calls_table.cmake: makes the table of the tape's calls from
# tape/calls.def.in after the C preprocessor.
file(READ ${INPUT} text)
string(REGEX REPLACE "^.*enum {[^\n]*\n" "" text "${text}")
string(REGEX REPLACE "^\n+" "" text "${text}")
string(REGEX REPLACE "\n\n+" "\n" text "${text}")
set(undefined "")
foreach(name "" _RESULT _OPERAND _INT _INTS _FLOAT _FLOATS _TEXT _TEXTS _DTYPE _CHOICE _TYPE)
  string(APPEND undefined "#undef XCVM_CALL${name}\n")
endforeach()
file(WRITE ${OUTPUT} "/*
 * The table of the calls of tape_calls.h, made from the op definitions. Bindings of other languages fill the struct of a
 * call by it. Define these macros before including the file, which undefines them:
 *
 *   XCVM_CALL(name, number, effect, gradient, fields, summary)
 *
 * name      the call is struct xcvm_<name>_call.
 * number    of the instruction, for xcvm_call.
 * effect    PURE; RANDOM; EFFECT: it has side effects, and no member `into`.
 * gradient  YES; ZERO; STEP: zero but for steps; NONE: it cannot be differentiated.
 * fields    blank-separated, results first:
 *   XCVM_CALL_RESULT(kind, name, types), XCVM_CALL_OPERAND(kind, name, types)
 *     kind    TENSOR, SEQUENCE, ANY, OPTIONAL (may be absent); LIST, ANYS: a list.
 *     types   element types, or a type variable.
 *   XCVM_CALL_INT(name, value), _INTS(name), _FLOAT(name, value), _FLOATS(name), _TEXT(name, value), _TEXTS(name),
 *   _DTYPE(name, value), _CHOICE(name, set, value, names): attributes with their defaults. `names` has a | after each.
 *   XCVM_CALL_TYPE(variable, types): the element types of a type variable.
 */
${text}${undefined}")
